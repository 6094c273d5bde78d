"""What an object counts in a ResourceQuota, and which quotas concern it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_CEILING
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object, Resource
from kubewright.api.time import parse_time
from kubewright.local.quota.pod_amounts import add_amounts, is_best_effort, pod_amounts

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
_COMPUTE = frozenset(
    {"pods", *_PLAIN, *(f"{key}.{name}" for key in ("requests", "limits") for name in _PLAIN)}
)
_SERVICE_COUNTS = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_CLAIM_COUNTS = ("persistentvolumeclaims", "requests.storage")
_CLASS = ".storageclass.storage.k8s.io/"
_HUGE = "hugepages-"
_REQUESTS = "requests."
_UNCOUNTED = frozenset({"events", "events.events.k8s.io", "bindings", "componentstatuses"})


def count_name(resource: Resource) -> str:
    """Return the name that counts the objects of a resource: `count/deployments.apps`."""
    return f"count/{resource.group_resource}"


def names_counted(resource: Resource, hard: Iterable[str]) -> set[str]:
    """Return the names of a quota's `hard` under which objects of a resource can count."""
    if not resource.namespaced or str(resource.group_resource) in _UNCOUNTED:
        return set()
    names = {name for name in hard if name == count_name(resource)}
    if resource.group:
        return names
    match resource.plural:
        case "pods":
            return names | {name for name in hard if _counts_pods(name)}
        case "services":
            return names | (_SERVICE_COUNTS & set(hard))
        case "persistentvolumeclaims":
            return names | {name for name in hard if _counts_claims(name)}
    return names | ({resource.plural} & _COUNTED & set(hard))


def _counts_pods(name: str) -> bool:
    if name in _COMPUTE or name.startswith((_HUGE, _REQUESTS + _HUGE)):
        return True
    # Of other resources, those of vendors, only requests can be limited.
    return name.startswith(_REQUESTS) and "/" in name and _CLASS not in name


def _counts_claims(name: str) -> bool:
    return name in _CLAIM_COUNTS or name.endswith(tuple(_CLASS + kind for kind in _CLAIM_COUNTS))


def usage_of(resource: Resource, obj: Object, now: datetime | None = None) -> Usage:
    """Return what one object counts, by the names that a quota's `hard` may have.

    Pods that have ended count as objects only. So do those that should have been gone by `now`: a
    lost node must not keep a namespace from replacing them.
    """
    usage = {count_name(resource): Quantity(1)}
    if resource.group:
        return usage
    if resource.plural == "pods":
        return usage if is_pod_over(obj, now) else usage | _pod_usage(obj)
    if resource.plural in _COUNTED:
        usage[resource.plural] = Quantity(1)
    if resource.plural == "services":
        usage |= _service_usage(obj.get("spec") or {})
    elif resource.plural == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    return usage


def is_pod_over(pod: Object, now: datetime | None = None) -> bool:
    """Tell whether a pod has ended, or should have by `now`, and takes no resources any more."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    end = pod_deadline(pod)
    return now is not None and end is not None and now > end


def pod_deadline(pod: Object) -> datetime | None:
    """Return when a pod that was asked to end stops counting, whether it is gone or not."""
    metadata = pod["metadata"]
    asked, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if asked is None or grace is None:
        return None
    return parse_time(asked) + timedelta(seconds=grace)


def _pod_usage(pod: Object) -> Usage:
    usage = {"pods": Quantity(1)}
    status = pod.get("status") or {}
    for name, amount in pod_amounts(pod["spec"], "requests", status).items():
        usage[f"requests.{name}"] = amount
        if name in _PLAIN or name.startswith(_HUGE):
            usage[name] = amount
    for name, amount in pod_amounts(pod["spec"], "limits", status).items():
        if name in _PLAIN:
            usage[f"limits.{name}"] = amount
    return usage


def _service_usage(spec: Object) -> Usage:
    kind = spec.get("type") or "ClusterIP"
    ports = spec.get("ports") or ()
    if kind == "NodePort":
        return {"services.nodeports": Quantity(len(ports))}
    if kind != "LoadBalancer":
        return {}
    if spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    return {
        "services.loadbalancers": Quantity(1),
        "services.nodeports": Quantity(len(ports)),
    }


def _claim_usage(claim: Object) -> Usage:
    spec = claim.get("spec") or {}
    annotations = claim["metadata"].get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get(
        "storageClassName"
    )
    storage = _claimed_storage(claim)
    usage = {} if storage is None else {"requests.storage": storage}
    if name:
        usage[f"{name}{_CLASS}persistentvolumeclaims"] = Quantity(1)
        if storage is not None:
            usage[f"{name}{_CLASS}requests.storage"] = storage
    return usage


def _claimed_storage(claim: Object) -> Quantity | None:
    """Return whole bytes: what is asked for, or what is allocated where that is more."""
    asked = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get(
        "storage"
    )
    if asked is None:
        return None
    storage = Quantity(asked)
    allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    if allocated is not None and Quantity(allocated) > storage:
        storage = Quantity(allocated)
    storage.value = storage.value.to_integral_value(ROUND_CEILING)
    return storage


def find_missing(hard: Iterable[str], pod: Object) -> dict[str, list[str]]:
    """Return the compute resources that a quota needs told, with the containers that do not.

    Only processor time and memory must be told; a pod that tells them as a whole has told all.
    """
    missing: dict[str, list[str]] = {}
    spec = pod["spec"]
    own = spec.get("resources") or {}
    if any(_is_pod_level(name) for key in ("requests", "limits") for name in own.get(key) or ()):
        return missing
    for name in sorted(hard):
        key, resource = _compute(name)
        if not key:
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


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE)


def _compute(name: str) -> tuple[str, str]:
    """Return whether requests or limits are meant, and of what; empty for other names."""
    if name in ("cpu", "memory"):
        return "requests", name
    key, _, resource = name.partition(".")
    told = key in ("requests", "limits") and resource in ("cpu", "memory")
    return (key, resource) if told else ("", "")


def is_selected(quota: Object, resource: Resource, obj: Object) -> bool:
    """Tell whether an object has all the scopes of a quota; only pods and claims have any."""
    spec = quota.get("spec") or {}
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    wanted = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    wanted += selector
    if not wanted:
        return True
    if resource.group:
        return False
    if resource.plural == "persistentvolumeclaims":
        return all(_has_claim_scope(obj, scope) for scope in wanted)
    return resource.plural == "pods" and all(_has_scope(obj, scope) for scope in wanted)


def _has_scope(pod: Object, scope: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    match scope.get("scopeName"):
        case "Terminating" | "NotTerminating" as name:
            return is_bounded(spec) is (name == "Terminating")
        case "BestEffort" | "NotBestEffort" as name:
            return is_best_effort(pod) is (name == "BestEffort")
        case "CrossNamespacePodAffinity":
            return _looks_into_namespaces(spec)
        case "PriorityClass":
            return _holds(scope, [str(spec.get("priorityClassName") or "")])
    return False


def is_bounded(spec: Object) -> bool:
    """Tell whether a pod has a deadline: what the scope Terminating means."""
    return spec.get("activeDeadlineSeconds") is not None


def _looks_into_namespaces(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = [*(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        terms += [
            weighted.get("podAffinityTerm") or {}
            for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        if any(t.get("namespaces") or t.get("namespaceSelector") is not None for t in terms):
            return True
    return False


def _has_claim_scope(claim: Object, scope: Mapping[str, Any]) -> bool:
    if scope.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = [
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    ]
    return _holds(scope, [str(name) for name in names if name] or [""])


def _holds(scope: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Tell whether one of the classes that an object names, or its having none, is meant."""
    values: list[str] = scope.get("values") or []
    match scope.get("operator"):
        case "In":
            return any(name in values for name in names if name)
        case "NotIn":
            return any(name not in values for name in names)
        case "DoesNotExist":
            return not any(names)
    return any(names)


def sum_usage(parts: Iterable[Usage]) -> Usage:
    """Add up usages."""
    return add_amounts({name: str(amount) for name, amount in part.items()} for part in parts)
