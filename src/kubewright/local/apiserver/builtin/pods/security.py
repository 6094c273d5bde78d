"""Validation of security contexts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice
from kubewright.local.apiserver.builtin.internal_form import show_internal
from kubewright.local.apiserver.field_error import duplicate, invalid, required
from kubewright.local.apiserver.formats import range_fault

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_ESCALATION = "cannot set `allowPrivilegeEscalation` to false and"
_PROC_MOUNTS = ("Default", "Unmasked")
_POLICIES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}
_SYSCTL = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_LONGEST_SYSCTL = 253
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def validate_security_context(
    context: Object, field: str, *, shares_users: bool = True
) -> list[Cause]:
    """Return what is wrong with the security context of a container.

    `shares_users` tells that the pod lives in the host's user namespace.
    """
    causes = _check_ids(context, ("runAsUser", "runAsGroup"), field)
    mount = context.get("procMount")
    causes += check_choice(mount, _PROC_MOUNTS, f"{field}.procMount")
    if shares_users and mount == "Unmasked":
        detail = "`hostUsers` must be false to use `Unmasked`"
        causes.append(invalid(f"{field}.procMount", mount, detail))
    causes += _check_profile(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        shown = show_internal(context, "SecurityContext")
        if context.get("privileged"):
            causes.append(invalid(field, shown, f"{_ESCALATION} `privileged` to true"))
        added = (context.get("capabilities") or {}).get("add") or ()
        causes += [
            invalid(field, shown, f"{_ESCALATION} `capabilities.Add` CAP_SYS_ADMIN")
            for name in added
            if name == "CAP_SYS_ADMIN"
        ]
    return causes + _check_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile")


def validate_pod_security_context(context: Object, spec: Object, field: str) -> list[Cause]:
    """Return what is wrong with the security context of a pod of this spec."""
    causes = _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), field)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_ID:
            fault = range_fault(0, _MAX_ID)
            causes.append(invalid(f"{field}.supplementalGroups[{index}]", group, fault))
    causes += _check_sysctls(context.get("sysctls") or (), spec, f"{field}.sysctls")
    causes += _check_policy(context, "fsGroupChangePolicy", field)
    causes += _check_profile(context.get("seccompProfile"), f"{field}.seccompProfile")
    causes += _check_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile")
    causes += _check_policy(context, "supplementalGroupsPolicy", field)
    return causes + _check_policy(context, "seLinuxChangePolicy", field)


def _check_policy(context: Object, key: str, field: str) -> list[Cause]:
    return check_choice(context.get(key), _POLICIES[key], f"{field}.{key}")


def _check_sysctls(sysctls: Sequence[Object], spec: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, place = sysctl.get("name") or "", f"{field}[{index}].name"
        if not name:
            causes.append(required(place))
        elif len(name) > _LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            causes.append(invalid(place, name, detail))
        elif name in seen:
            causes.append(duplicate(place, name))
        seen.add(name)
        host = "hostNetwork" if name.startswith("net.") else "hostIPC"
        if spec.get(host) and name.startswith(("net.", *_IPC_SYSCTLS)):
            causes.append(invalid(place, name, f"may not be specified when '{host}' is true"))
    return causes


def _check_ids(context: Object, keys: tuple[str, ...], field: str) -> list[Cause]:
    return [
        invalid(f"{field}.{key}", context[key], range_fault(0, _MAX_ID))
        for key in keys
        if context.get(key) is not None and not 0 <= context[key] <= _MAX_ID
    ]


def _check_profile(profile: Object | None, field: str) -> list[Cause]:
    name = "seccomp" if field.endswith("seccompProfile") else "AppArmor"
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if kind == "Localhost" and not local:
        detail = f"must be set when {name} type is Localhost"
        return [required(f"{field}.localhostProfile", detail)]
    if kind != "Localhost" and local is not None:
        detail = f"can only be set when {name} type is Localhost"
        return [invalid(f"{field}.localhostProfile", local, detail)]
    return check_choice(kind, _PROFILES, f"{field}.type", needed=True)
