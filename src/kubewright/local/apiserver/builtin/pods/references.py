"""References to fields of the pod itself (downward API), for environment and volumes."""

from __future__ import annotations

import re

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_qualified
from kubewright.local.apiserver.field_error import invalid, not_supported, required

ENVIRONMENT_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
VOLUME_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
        "metadata.uid",
    }
)
_KNOWN = (
    ENVIRONMENT_FIELDS
    | VOLUME_FIELDS
    | {"spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)
_RESOURCES = frozenset(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_SUBSCRIPT = re.compile(r"([^\[]+)\['(.+)'\]")
_UNITS = ("1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_field_reference(reference: Object, allowed: frozenset[str], field: str) -> list[Cause]:
    """Return what is wrong with an ObjectFieldSelector."""
    path = reference.get("fieldPath") or ""
    if not path:
        return [required(f"{field}.fieldPath")]
    if reference.get("apiVersion") != "v1":
        version = reference.get("apiVersion")
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{field}.fieldPath", path, detail)]
    if match := _SUBSCRIPT.fullmatch(path):
        return _validate_subscript(match[1], match[2], path, field)
    if path not in _KNOWN:
        detail = f"error converting fieldPath: field label not supported: {path}"
        return [invalid(f"{field}.fieldPath", path, detail)]
    path = "spec.nodeName" if path == "spec.host" else path
    if path not in allowed:
        return [not_supported(f"{field}.fieldPath", path, sorted(allowed))]
    return []


def _validate_subscript(head: str, key: str, path: str, field: str) -> list[Cause]:
    if head == "metadata.annotations":
        return check_qualified(key.lower(), field)
    if head == "metadata.labels":
        return check_qualified(key, field)
    detail = f"error converting fieldPath: field label does not support subscript: {path}"
    return [invalid(f"{field}.fieldPath", path, detail)]


def validate_resource_reference(
    reference: Object, field: str, *, is_volume: bool = False
) -> list[Cause]:
    """Return what is wrong with a ResourceFieldSelector."""
    causes: list[Cause] = []
    resource = reference.get("resource") or ""
    if is_volume and not reference.get("containerName"):
        causes.append(required(f"{field}.containerName"))
    elif not resource:
        causes.append(required(f"{field}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(
        ("limits.hugepages-", "requests.hugepages-")
    ):
        causes.append(not_supported(f"{field}.resource", resource, sorted(_RESOURCES)))
    return causes + _validate_divisor(resource, reference.get("divisor") or "0", field)


def _validate_divisor(resource: str, divisor: str, field: str) -> list[Cause]:
    if Quantity(divisor).value == 0:
        return []
    if resource.endswith(".cpu"):
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [] if divisor in ("1m", "1") else [invalid(f"{field}.divisor", resource, detail)]
    if divisor in ("1", *_UNITS):
        return []
    name = "local ephemeral storage" if "ephemeral" in resource else resource.partition(".")[2]
    listed = ", ".join(("1", *_UNITS))
    detail = f"only divisor's values {listed} are supported with the {name} resource"
    return [invalid(f"{field}.divisor", resource, detail)]
