"""Validation of probes, lifecycle hooks and their handlers."""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_numbers,
    check_port,
    check_present,
    with_faults,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, required
from kubewright.local.apiserver.formats import check_header_name, check_port_number

_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_lifecycle(lifecycle: Object, grace: int | None, field: str) -> list[Cause]:
    """Return what is wrong with the hooks of a container."""
    causes: list[Cause] = []
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            causes += validate_handler(lifecycle[hook], grace, f"{field}.{hook}")
    return causes


def validate_probes(container: Object, grace: int | None, field: str) -> list[Cause]:
    """Return what is wrong with the three probes of a container."""
    causes: list[Cause] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            causes += _validate_probe(name, container[name], grace, f"{field}.{name}")
    return causes


def _validate_probe(name: str, probe: Object, grace: int | None, field: str) -> list[Cause]:
    causes = validate_handler(probe, grace, field) + check_numbers(probe, _NUMBERS, field)
    own_grace = probe.get("terminationGracePeriodSeconds")
    grace_field = f"{field}.terminationGracePeriodSeconds"
    if own_grace is not None and own_grace <= 0:
        causes.append(invalid(grace_field, own_grace, "must be greater than 0"))
    if name == "readinessProbe":
        if own_grace is not None:
            causes.append(invalid(grace_field, own_grace, "must not be set for readinessProbes"))
    elif probe.get("successThreshold", 0) != 1:
        threshold = probe.get("successThreshold", 0)
        causes.append(invalid(f"{field}.successThreshold", threshold, "must be 1"))
    return causes


def validate_handler(handler: Object, grace: int | None, field: str) -> list[Cause]:
    """Return what is wrong with a handler: exactly one of its kinds is set, and that well."""
    causes: list[Cause] = []
    found = 0
    for name, check in _HANDLERS.items():
        if name not in handler:
            continue
        if found:
            causes.append(forbidden(f"{field}.{name}", "may not specify more than 1 handler type"))
        else:
            found += 1
            causes += check(handler[name], f"{field}.{name}")
    if "sleep" in handler:
        if found:
            causes.append(forbidden(f"{field}.sleep", "may not specify more than 1 handler type"))
        found += 1
        causes += _validate_sleep(handler["sleep"], grace, f"{field}.sleep")
    if not found:
        causes.append(required(field, "must specify a handler type"))
    return causes


def _validate_exec(action: Object, field: str) -> list[Cause]:
    return check_present(action, "command", field)


def _validate_http(action: Object, field: str) -> list[Cause]:
    causes = check_present(action, "path", field)
    causes += check_port(action.get("port"), f"{field}.port")
    causes += check_choice(action.get("scheme"), ("HTTP", "HTTPS"), f"{field}.scheme")
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        causes += with_faults(f"{field}.httpHeaders", name, check_header_name(name))
    return causes


def _validate_tcp(action: Object, field: str) -> list[Cause]:
    return check_port(action.get("port"), f"{field}.port")


def _validate_grpc(action: Object, field: str) -> list[Cause]:
    port = action.get("port") or 0
    return with_faults(f"{field}.port", port, check_port_number(port))


def _validate_sleep(action: Object, grace: int | None, field: str) -> list[Cause]:
    seconds = action.get("seconds") or 0
    if grace is None or 0 <= seconds <= grace:
        return []
    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [invalid(field, seconds, detail)]


_HANDLERS: dict[str, Callable[[Object, str], list[Cause]]] = {
    "exec": _validate_exec,
    "httpGet": _validate_http,
    "tcpSocket": _validate_tcp,
    "grpc": _validate_grpc,
}
