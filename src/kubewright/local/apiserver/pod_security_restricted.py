"""Pod Security Standards, level restricted: baseline, and hardened as far as pods can be."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.pod_security_baseline import (
    BASELINE,
    Check,
    Finding,
    added_capabilities,
    check_capabilities,
    check_host_paths,
    check_seccomp,
    containers_of,
    context_of,
    name_containers,
    names_where,
    quote,
)

_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_PROFILES = ("RuntimeDefault", "Localhost")


def _is_windows(pod: Object) -> bool:
    return (pod["spec"].get("os") or {}).get("name") == "windows"


def check_escalation(pod: Object) -> Finding | None:
    """No process may gain more rights than its parent."""
    if _is_windows(pod):
        return None
    names = names_where(pod, lambda c: context_of(c).get("allowPrivilegeEscalation") is not False)
    if not names:
        return None
    detail = f"{name_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail)


def check_dropped(pod: Object) -> Finding | None:
    """All capabilities are dropped; only NET_BIND_SERVICE may come back."""
    if _is_windows(pod):
        return None

    def keeps(container: Object) -> bool:
        capabilities = context_of(container).get("capabilities") or {}
        return "ALL" not in (capabilities.get("drop") or ())

    def extra(container: Object) -> set[str]:
        return set(added_capabilities(container)) - {"NET_BIND_SERVICE"}

    parts: list[str] = []
    if names := names_where(pod, keeps):
        parts.append(f'{name_containers(names)} must set securityContext.capabilities.drop=["ALL"]')
    if names := names_where(pod, lambda c: bool(extra(c))):
        found = quote(sorted({name for c in containers_of(pod) for name in extra(c)}))
        where = "securityContext.capabilities.add"
        parts.append(f"{name_containers(names)} must not include {found} in {where}")
    return Finding("unrestricted capabilities", "; ".join(parts)) if parts else None


def check_volumes(pod: Object) -> Finding | None:
    """Only volumes that bring nothing of the node."""
    found: dict[str, str] = {}
    for volume in pod["spec"].get("volumes") or ():
        for kind in volume:
            if kind != "name" and kind not in _VOLUMES:
                found[str(volume.get("name"))] = kind
    if not found:
        return None
    kinds = sorted(set(found.values()))
    who = f"volume {quote(found)} uses" if len(found) == 1 else f"volumes {quote(found)} use"
    word = "type" if len(kinds) == 1 else "types"
    return Finding("restricted volume types", f"{who} restricted volume {word} {quote(kinds)}")


def check_non_root(pod: Object) -> Finding | None:
    """Nobody is root."""
    of_pod = context_of(pod["spec"]).get("runAsNonRoot")
    bad = names_where(pod, lambda c: context_of(c).get("runAsNonRoot") is False)
    silent = names_where(pod, lambda c: context_of(c).get("runAsNonRoot") is None)
    setters = ["pod"] if of_pod is False else []
    if bad:
        setters.append(name_containers(bad))
    if setters:
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Finding("runAsNonRoot != true", detail)
    if of_pod or not silent:
        return None
    detail = f"pod or {name_containers(silent)} must set securityContext.runAsNonRoot=true"
    return Finding("runAsNonRoot != true", detail)


def check_user(pod: Object) -> Finding | None:
    """Nobody is user 0."""
    setters = ["pod"] if context_of(pod["spec"]).get("runAsUser") == 0 else []
    if names := names_where(pod, lambda c: context_of(c).get("runAsUser") == 0):
        setters.append(name_containers(names))
    if not setters:
        return None
    return Finding("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0")


def check_profile(pod: Object) -> Finding | None:
    """System calls are confined."""
    if _is_windows(pod):
        return None

    def profile(holder: Object) -> str | None:
        kind: str | None = (context_of(holder).get("seccompProfile") or {}).get("type")
        return kind

    of_pod = profile(pod["spec"])
    bad = names_where(pod, lambda c: profile(c) not in (None, *_PROFILES))
    silent = names_where(pod, lambda c: profile(c) is None)
    setters = ["pod"] if of_pod not in (None, *_PROFILES) else []
    if bad:
        setters.append(name_containers(bad))
    where = "securityContext.seccompProfile.type to"
    if setters:
        return Finding(
            "seccompProfile", f'{" and ".join(setters)} must not set {where} "Unconfined"'
        )
    if of_pod or not silent:
        return None
    wanted = " or ".join(f'"{name}"' for name in _PROFILES)
    return Finding("seccompProfile", f"pod or {name_containers(silent)} must set {where} {wanted}")


# These three are replaced by stricter ones.
_REPLACED = (check_capabilities, check_host_paths, check_seccomp)
RESTRICTED: tuple[Check, ...] = (
    *(check for check in BASELINE if check not in _REPLACED),
    check_escalation,
    check_dropped,
    check_volumes,
    check_non_root,
    check_user,
    check_profile,
)
