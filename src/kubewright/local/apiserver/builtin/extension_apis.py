"""Rules of groups that few operators touch: API services, flow control, dynamic resources."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import with_faults
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, NONE, column, format_age, format_since
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.formats import check_dns_1035_label, check_dns_subdomain
from kubewright.local.apiserver.objectmeta import path_segment

_METADATA_TOO = (("metadata",), ("spec",))


def _api_service_cells(obj: Object, now: datetime) -> list[Any]:
    service = obj["spec"].get("service")
    shown = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found: list[Object] = [c for c in conditions if c.get("type") == "Available"]
    available = found[0] if found else {}
    state, reason = available.get("status") or "Unknown", available.get("reason")
    if reason and state != "True":
        state = f"{state} ({reason})"
    return [shown, state, format_age(obj, now)]


def _validate_api_service(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    causes: list[Cause] = []
    if obj["metadata"].get("name") != f"{version}.{group}":
        detail = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(invalid("metadata.name", obj["metadata"].get("name") or "", detail))
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", detail))
    if group:
        causes += with_faults("spec.group", group, check_dns_subdomain(group))
    causes += with_faults("spec.version", version, check_dns_1035_label(version))
    for key, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(key) or 0
        if not 0 < value <= most:
            causes.append(invalid(f"spec.{key}", value, f"must be positive and less than {most}"))
    return causes + _validate_service(spec)


def _validate_service(spec: Object) -> list[Cause]:
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    is_insecure = bool(spec.get("insecureSkipTLSVerify"))
    causes: list[Cause] = []
    if service is None:
        if bundle:
            size = f"{len(bundle) * 3 // 4 - bundle.count('=')} bytes"
            detail = "local APIServices may not have a caBundle"
            causes.append(invalid("spec.caBundle", size, detail))
        if is_insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            causes.append(invalid("spec.insecureSkipTLSVerify", True, detail))
        return causes
    causes += [
        required(f"spec.service.{key}") for key in ("namespace", "name") if not service.get(key)
    ]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid("spec.service.port", port, detail))
    if is_insecure and bundle:
        detail = "may not be true if caBundle is present"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, detail))
    return causes


def _flow_schema_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    dangling = next((c.get("status", "") for c in conditions if c.get("type") == "Dangling"), "?")
    return [
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence") or 0,
        (spec.get("distinguisherMethod") or {}).get("type") or NONE,
        format_age(obj, now),
        dangling,
    ]


def _priority_level_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    limited = spec.get("limited") or {}
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    counts = [queuing.get(key, NONE) for key in ("queues", "handSize", "queueLengthLimit")]
    shares = limited.get("nominalConcurrencyShares", NONE)
    return [spec.get("type", ""), shares, *counts, format_age(obj, now)]


def _claim_state(obj: Object) -> str:
    status = obj.get("status") or {}
    is_deleting = "deletionTimestamp" in obj["metadata"]
    states = ["deleted"] if is_deleting else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not is_deleting:
        states.append("pending")
    return ",".join(states)


def _slice_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [spec.get("nodeName", ""), spec.get("driver", ""), pool, format_age(obj, now)]


def _taint_rule_cells(obj: Object, now: datetime) -> list[Any]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    parts = [taint.get(key, "") for key in ("key", "value", "effect")]
    return [*parts, format_since(taint.get("timeAdded"), now), format_age(obj, now)]


RULES: Mapping[str, Rules] = {
    "APIService": Rules(
        name_rule=path_segment,
        validate=_validate_api_service,
        status_resets=_METADATA_TOO,
        table=Table((column("Service"), column("Available"), AGE), _api_service_cells),
    ),
    "FlowSchema": Rules(
        has_generation=True,
        status_resets=_METADATA_TOO,
        table=Table(
            (
                column("PriorityLevel"),
                column("MatchingPrecedence"),
                column("DistinguisherMethod"),
                AGE,
                column("MissingPL"),
            ),
            _flow_schema_cells,
        ),
    ),
    "PriorityLevelConfiguration": Rules(
        has_generation=True,
        status_resets=_METADATA_TOO,
        table=Table(
            (
                column("Type"),
                column("NominalConcurrencyShares"),
                column("Queues"),
                column("HandSize"),
                column("QueueLengthLimit"),
                AGE,
            ),
            _priority_level_cells,
        ),
    ),
    "DeviceClass": Rules(has_generation=True),
    "DeviceTaintRule": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        status_resets=_METADATA_TOO,
        table=Table(
            (column("Key"), column("Value"), column("Effect"), column("TimeAdded"), AGE),
            _taint_rule_cells,
        ),
    ),
    "ResourceClaim": Rules(
        status_resets=_METADATA_TOO,
        table=Table(
            (column("State"), AGE), lambda obj, now: [_claim_state(obj), format_age(obj, now)]
        ),
    ),
    "ResourceSlice": Rules(
        has_generation=True,
        table=Table((column("Node"), column("Driver"), column("Pool"), AGE), _slice_cells),
    ),
}
