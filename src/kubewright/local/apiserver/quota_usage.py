"""What an object counts in a ResourceQuota, and which quotas concern it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object, Resource
from kubewright.local.apiserver.builtin.core_pods import quality_of_service
from kubewright.local.apiserver.pod_usage import add_amounts, pod_amounts

Usage = dict[str, Quantity]

_COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
# Counted under their bare name, without "requests.", as well.
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_CLASS = ".storageclass.storage.k8s.io/"
SCOPES = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"}
)


def usage_of(resource: Resource, obj: Object) -> Usage:
    """Return what one object counts, by the names that a quota's `hard` may have."""
    name = f"count/{resource.group_resource}"
    if resource.group:
        return {name: Quantity(1)}
    if resource.plural == "pods":
        return {name: Quantity(1)} | _pod_usage(obj)
    usage = {name: Quantity(1)}
    if resource.plural in _COUNTED:
        usage[resource.plural] = Quantity(1)
    if resource.plural == "services":
        usage |= _service_usage(obj.get("spec") or {})
    elif resource.plural == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    return usage


def _pod_usage(pod: Object) -> Usage:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    usage = {"pods": Quantity(1)}
    for name, amount in pod_amounts(pod["spec"], "requests").items():
        usage[f"requests.{name}"] = amount
        if name in _PLAIN or name.startswith("hugepages-"):
            usage[name] = amount
    for name, amount in pod_amounts(pod["spec"], "limits").items():
        usage[f"limits.{name}"] = amount
    return usage


def _service_usage(spec: Object) -> Usage:
    kind = spec.get("type") or "ClusterIP"
    ports = len(spec.get("ports") or ())
    if kind == "NodePort":
        return {"services.nodeports": Quantity(ports)}
    if kind != "LoadBalancer":
        return {}
    has_ports = spec.get("allocateLoadBalancerNodePorts") is not False
    return {
        "services.loadbalancers": Quantity(1),
        "services.nodeports": Quantity(ports if has_ports else 0),
    }


def _claim_usage(claim: Object) -> Usage:
    spec = claim.get("spec") or {}
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    usage = {} if storage is None else {"requests.storage": Quantity(storage)}
    if name := spec.get("storageClassName"):
        usage[f"{name}{_CLASS}persistentvolumeclaims"] = Quantity(1)
        if storage is not None:
            usage[f"{name}{_CLASS}requests.storage"] = Quantity(storage)
    return usage


def find_missing(hard: Iterable[str], pod: Object) -> dict[str, list[str]]:
    """Return the compute resources that a quota needs told, with the containers that do not."""
    missing: dict[str, list[str]] = {}
    spec = pod["spec"]
    own = spec.get("resources") or {}
    for name in sorted(hard):
        key, resource = _compute(name)
        if not key or resource in (own.get(key) or {}):
            continue
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        silent = [
            str(container.get("name"))
            for container in containers
            if resource not in ((container.get("resources") or {}).get(key) or {})
        ]
        if silent:
            missing[name] = sorted(silent)
    return missing


def _compute(name: str) -> tuple[str, str]:
    """Return whether requests or limits are meant, and of what; empty for other names."""
    if name in ("cpu", "memory"):
        return "requests", name
    key, _, resource = name.partition(".")
    return (key, resource) if key in ("requests", "limits") and resource in _PLAIN else ("", "")


def is_selected(quota: Object, resource: Resource, obj: Object) -> bool:
    """Tell whether an object has all the scopes of a quota; only pods have any."""
    spec = quota.get("spec") or {}
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    wanted = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    wanted += selector
    if not wanted:
        return True
    is_pod = not resource.group and resource.plural == "pods"
    return is_pod and all(_has_scope(obj["spec"], scope) for scope in wanted)


def _has_scope(spec: Object, scope: Mapping[str, Any]) -> bool:
    name = scope.get("scopeName")
    if name in ("Terminating", "NotTerminating"):
        return ("activeDeadlineSeconds" in spec) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (quality_of_service(spec) == "BestEffort") is (name == "BestEffort")
    priority = str(spec.get("priorityClassName") or "")
    values: list[str] = scope.get("values") or []
    match scope.get("operator"):
        case "In":
            return priority in values
        case "NotIn":
            return priority not in values
        case "DoesNotExist":
            return not priority
    return bool(priority)


def sum_usage(parts: Iterable[Usage]) -> Usage:
    """Add up usages."""
    return add_amounts({name: str(amount) for name, amount in part.items()} for part in parts)
