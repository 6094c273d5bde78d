"""Validation of resource amounts: requests, limits, claims."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import NOT_NEGATIVE, check_choice, check_qualified
from kubewright.local.apiserver.field_error import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from kubewright.local.apiserver.formats import check_qualified_name

_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_OBJECT_COUNTS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
STANDARD_QUOTA = (
    _CONTAINER
    | _OBJECT_COUNTS
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
    | {"requests.storage"}
)
STANDARD = STANDARD_QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    """Tell whether a resource is huge pages of some size."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """Tell whether a resource is one of Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a resource is a well-named extended one, such as `example.com/gpu`."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not check_qualified_name(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    """Tell whether a request may be below its limit."""
    return is_native(name) and not is_huge_page(name)


def check_resource_name(name: str, field: str) -> list[Cause]:
    """Check the name of any resource."""
    causes = check_qualified(name, field)
    is_standard = name in STANDARD or name.startswith(("hugepages-", "requests.hugepages-"))
    if not causes and "/" not in name and not is_standard:
        causes.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return causes


def check_container_resource_name(name: str, field: str) -> list[Cause]:
    """Check the name of a resource that a container asks for."""
    causes = check_resource_name(name, field)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            causes.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        causes.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return causes


def check_amount(name: str, amount: str, field: str) -> list[Cause]:
    """Check an amount: not negative, and whole where the resource is counted."""
    quantity = Quantity(amount)
    causes = [] if quantity.value >= 0 else [invalid(field, amount, NOT_NEGATIVE)]
    if (name in _OBJECT_COUNTS or is_extended(name)) and quantity.to_milli() % 1000:
        causes.append(invalid(field, amount, "must be an integer"))
    return causes


def validate_resources(resources: Object, claims: set[str], field: str) -> list[Cause]:
    """Return what is wrong with the resource requirements of a container.

    `claims` are the names of the pod's resource claims.
    """
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for name, amount in limits.items():
        causes += _validate_amount(name, amount, f"{field}.limits[{name}]")
    for name, amount in requests.items():
        causes += _validate_amount(name, amount, f"{field}.requests[{name}]")
        causes += _validate_request(name, amount, limits.get(name), field)
    names = {*limits, *requests}
    if any(is_huge_page(name) for name in names) and not names & {"cpu", "memory"}:
        causes.append(forbidden(field, "HugePages require cpu or memory"))
    return causes + _validate_claims(resources.get("claims") or [], claims, f"{field}.claims")


def validate_resize_policy(policies: list[Object], field: str) -> list[Cause]:
    """Return what is wrong with how a container takes a change of its resources."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            causes.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
        causes += check_choice(name, _RESIZED, field, needed=True)
        causes += check_choice(restart, _RESIZE_POLICIES, field, needed=True)
    return causes


def validate_pod_resources(spec: Object, claims: set[str], field: str) -> list[Cause]:
    """Return what is wrong with the resources of a pod as a whole, beside its containers'."""
    resources = spec.get("resources")
    if resources is None:
        return []
    causes: list[Cause] = []
    if resources.get("claims"):
        detail = "claims may not be set for Resources at pod-level"
        causes.append(forbidden(f"{field}.claims", detail))
    causes += validate_resources(resources, claims, field)
    for name, amount in sorted((resources.get("requests") or {}).items()):
        total = Quantity(0)
        for container in spec.get("containers") or ():
            asked = ((container.get("resources") or {}).get("requests") or {}).get(name)
            total.value += Quantity(asked).value if asked is not None else 0
        if total.value > Quantity(amount).value:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            causes.append(invalid(f"{field}.requests[{name}]", amount, detail))
    return causes


def _validate_amount(name: str, amount: str, field: str) -> list[Cause]:
    return check_container_resource_name(name, field) + check_amount(name, amount, field)


def _validate_request(name: str, amount: str, limit: str | None, field: str) -> list[Cause]:
    if limit is None:
        if may_overcommit(name):
            return []
        return [required(f"{field}.limits", "Limit must be set for non overcommitable resources")]
    request, most = Quantity(amount), Quantity(limit)
    if request != most and not may_overcommit(name):
        detail = f"must be equal to {name} limit of {limit}"
        return [invalid(f"{field}.requests", amount, detail)]
    if request > most:
        detail = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(f"{field}.requests", amount, detail)]
    return []


def _validate_claims(items: list[Object], claims: set[str], field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        name, request = item.get("name") or "", item.get("request") or ""
        if not name:
            causes.append(required(f"{field}[{index}]"))
            continue
        if (name, request) in seen:
            shown = f"{name}/{request}" if request else name
            causes.append(duplicate(f"{field}[{index}]", shown))
        seen.add((name, request))
        if name not in claims:
            causes.append(not_found(f"{field}[{index}]", name))
    return causes
