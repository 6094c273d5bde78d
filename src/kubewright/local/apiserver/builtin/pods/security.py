"""Validation of security contexts."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice
from kubewright.local.apiserver.field_error import invalid, required
from kubewright.local.apiserver.formats import range_fault

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_ESCALATION = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
_GROUP_CHANGE = ("OnRootMismatch", "Always")


def validate_security_context(context: Object, field: str) -> list[Cause]:
    """Return what is wrong with the security context of a container."""
    causes = _check_ids(context, ("runAsUser", "runAsGroup"), field)
    causes += _check_profile(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        causes.append(invalid(field, context, _ESCALATION))
    return causes + _check_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile")


def validate_pod_security_context(context: Object, field: str) -> list[Cause]:
    """Return what is wrong with the security context of a pod."""
    causes = _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), field)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_ID:
            fault = range_fault(0, _MAX_ID)
            causes.append(invalid(f"{field}.supplementalGroups[{index}]", group, fault))
    policy = context.get("fsGroupChangePolicy")
    causes += check_choice(policy, _GROUP_CHANGE, f"{field}.fsGroupChangePolicy")
    causes += _check_profile(context.get("seccompProfile"), f"{field}.seccompProfile")
    return causes + _check_profile(context.get("appArmorProfile"), f"{field}.appArmorProfile")


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
