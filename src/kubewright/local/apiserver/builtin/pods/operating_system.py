"""Validation of what a pod may set on the operating system that it names."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.field_error import forbidden, not_supported, required

_SYSTEMS = ("linux", "windows")
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_NOT_ON_LINUX = "windows options cannot be set for a linux pod"
_POD_CONTEXT = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_POD = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_CONTAINER_CONTEXT = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def validate_operating_system(spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the system that a pod names, and with what does not exist there."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [required(f"{field}.os.name")]
    if name not in _SYSTEMS:
        return [not_supported(f"{field}.os", name, _SYSTEMS)]
    return _validate_linux(spec, field) if name == "linux" else _validate_windows(spec, field)


def _validate_linux(spec: Object, field: str) -> list[Cause]:
    return [
        forbidden(f"{where}.windowsOptions", _NOT_ON_LINUX)
        for context, where in _contexts(spec, field)
        if context.get("windowsOptions") is not None
    ]


def _validate_windows(spec: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    contexts = _contexts(spec, field)
    own, where = next(contexts)
    causes += _forbid_all(own, _POD_CONTEXT, where)
    causes += _forbid_all(spec, _POD, field)
    for context, place in contexts:
        causes += _forbid_all(context, _CONTAINER_CONTEXT, place)
    return causes


def _forbid_all(holder: Object, keys: tuple[str, ...], field: str) -> list[Cause]:
    return [
        forbidden(f"{field}.{key}", _NOT_ON_WINDOWS)
        for key in keys
        if holder.get(key) is not None and (holder[key] or key not in ("hostPID", "hostIPC"))
    ]


def _contexts(spec: Object, field: str) -> Iterator[tuple[Object, str]]:
    """Yield the security context of a pod, then those of its containers, each with its place."""
    yield spec.get("securityContext") or {}, f"{field}.securityContext"
    for key in _CONTAINERS:
        for index, container in enumerate(spec.get(key) or ()):
            context = container.get("securityContext") or {}
            yield context, f"{field}.{key}[{index}].securityContext"
