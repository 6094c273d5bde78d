"""Rules of Node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_qualified, with_faults
from kubewright.local.apiserver.builtin.pods.scheduling import TAINT_EFFECTS
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, NONE, UNKNOWN, column, format_age
from kubewright.local.apiserver.field_error import duplicate, forbidden, not_supported, required
from kubewright.local.apiserver.formats import check_label_value

_ROLE = "node-role.kubernetes.io/"


def _validate(node: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        # The real message says metadata, though taints are in the spec.
        field, key = f"metadata.taints[{index}]", taint.get("key") or ""
        value, effect = taint.get("value") or "", taint.get("effect") or ""
        causes += check_qualified(key, f"{field}.key")
        causes += with_faults(f"{field}.value", value, check_label_value(value))
        if not effect:
            causes.append(required(f"{field}.effect"))
        elif effect not in TAINT_EFFECTS:
            causes.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": None}
            cause = duplicate(field, shown)
            detail = "taints must be unique by key and effect pair"
            causes.append(cause._replace(message=f"{cause.message}: {detail}"))
        seen.add((key, effect))
    return causes


def _validate_update(node: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = node["spec"], old["spec"]
    causes: list[Cause] = []
    before = old_spec.get("podCIDRs") or []
    if before and (new_spec.get("podCIDRs") or []) != before:
        detail = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden("spec.podCIDRs", detail))
    provider = old_spec.get("providerID")
    if provider and new_spec.get("providerID") != provider:
        detail = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", detail))
    return causes


def _status_text(node: Object) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    text = "Unknown"
    if ready is not None:
        text = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if node["spec"].get("unschedulable") else text


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: Object, kind: str) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((a.get("address", "") for a in addresses if a.get("type") == kind), NONE)


def _cells(node: Object, now: datetime) -> list[Any]:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if architecture := info.get("architecture"):
        kernel = f"{kernel} ({architecture})"
    return [
        _status_text(node),
        _roles(node),
        format_age(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _default_pod_ranges(node: Object) -> None:
    """Keep the older, singular field equal to the first of the list."""
    spec = node["spec"]
    first = spec.get("podCIDR")
    if first and (spec.get("podCIDRs") or [""])[0] != first:
        spec["podCIDRs"] = [first]


_NODE = Rules(
    takes_status=True,
    default=_default_pod_ranges,
    validate=_validate,
    validate_update=_validate_update,
    fields={
        "spec.unschedulable": lambda node: str(bool(node["spec"].get("unschedulable"))).lower()
    },
    table=Table(
        (
            column("Status"),
            column("Roles"),
            AGE,
            column("Version"),
            column("Internal-IP", wide=True),
            column("External-IP", wide=True),
            column("OS-Image", wide=True),
            column("Kernel-Version", wide=True),
            column("Container-Runtime", wide=True),
        ),
        _cells,
    ),
)

RULES: Mapping[str, Rules] = {"Node": _NODE}
