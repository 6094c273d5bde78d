"""Pod Security Standards, level baseline: what no ordinary pod needs (KEP-2579).

Each check is a function of a pod template; it returns a Finding where the pod breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kubewright.api.resource import Object
from kubewright.local.apiserver.field_error import show


class Finding(NamedTuple):
    """What a pod breaks: the check's reason, and the places that break it."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Check = Callable[[Object], Finding | None]

_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    ]
)
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def containers_of(pod: Object) -> Iterator[Object]:
    """Yield all containers of a pod: those that start first, the others, those that debug."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(key) or ()


def context_of(holder: Object) -> Object:
    """Return the security context of a container or a pod's spec."""
    context: Object = holder.get("securityContext") or {}
    return context


def quote(names: Iterable[Any]) -> str:
    """List names as the checks do: quoted, with commas."""
    return ", ".join(f'"{name}"' for name in names)


def name_containers(names: list[str]) -> str:
    """Say which containers are meant: `container "a"`, `containers "a", "b"`."""
    return f"{'container' if len(names) == 1 else 'containers'} {quote(names)}"


def names_where(pod: Object, holds: Callable[[Object], bool]) -> list[str]:
    """Return the names of the containers for which a condition holds."""
    return [str(c.get("name")) for c in containers_of(pod) if holds(c)]


def added_capabilities(container: Object) -> list[str]:
    """Return the capabilities that a container adds."""
    added: list[str] = (context_of(container).get("capabilities") or {}).get("add") or []
    return added


def check_app_armor(pod: Object) -> Finding | None:
    """AppArmor may not be switched off."""
    setters: list[str] = []
    found: dict[str, None] = {}
    for where, holder in _holders(pod):
        kind = (context_of(holder).get("appArmorProfile") or {}).get("type")
        if kind == "Unconfined":
            setters.append(where)
            found[kind] = None
    annotations = [
        f"{key}={show(value)}"
        for key, value in sorted((pod["metadata"].get("annotations") or {}).items())
        if key.startswith(_APPARMOR) and not _is_profile_allowed(value)
    ]
    if annotations:
        setters.append("annotation" if len(annotations) == 1 else "annotations")
    values = [*found, *annotations]
    if not values:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quote(values)}"
    return Finding(f"forbidden AppArmor profile{'s' if len(values) > 1 else ''}", detail)


def _is_profile_allowed(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def check_capabilities(pod: Object) -> Finding | None:
    """Only capabilities that containers have by default may be added."""
    names = names_where(pod, lambda c: bool(set(added_capabilities(c)) - _CAPABILITIES))
    if not names:
        return None
    extra = {name for c in containers_of(pod) for name in added_capabilities(c)} - _CAPABILITIES
    detail = (
        f"{name_containers(names)} must not include {quote(sorted(extra))} in "
        "securityContext.capabilities.add"
    )
    return Finding("non-default capabilities", detail)


def check_host_namespaces(pod: Object) -> Finding | None:
    """A pod has namespaces of its own."""
    keys = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod["spec"].get(key)]
    return Finding("host namespaces", ", ".join(f"{key}=true" for key in keys)) if keys else None


def check_host_paths(pod: Object) -> Finding | None:
    """No folder of the node."""
    names = [v.get("name") for v in pod["spec"].get("volumes") or () if v.get("hostPath")]
    if not names:
        return None
    word = "volume" if len(names) == 1 else "volumes"
    return Finding("hostPath volumes", f"{word} {quote(names)}")


def check_host_ports(pod: Object) -> Finding | None:
    """No port of the node."""

    def ports(container: Object) -> set[int]:
        return {p["hostPort"] for p in container.get("ports") or () if p.get("hostPort")}

    names = names_where(pod, lambda c: bool(ports(c)))
    if not names:
        return None
    found = sorted({port for c in containers_of(pod) for port in ports(c)})
    verb = "uses" if len(names) == 1 else "use"
    word = "hostPort" if len(found) == 1 else "hostPorts"
    detail = f"{name_containers(names)} {verb} {word} {', '.join(map(str, found))}"
    return Finding("hostPort", detail)


def check_privileged(pod: Object) -> Finding | None:
    """No container that is as mighty as the node."""
    names = names_where(pod, lambda c: bool(context_of(c).get("privileged")))
    if not names:
        return None
    detail = f"{name_containers(names)} must not set securityContext.privileged=true"
    return Finding("privileged", detail)


def check_proc_mount(pod: Object) -> Finding | None:
    """/proc stays masked."""

    def mount(container: Object) -> str:
        return str(context_of(container).get("procMount") or "Default")

    names = names_where(pod, lambda c: mount(c) != "Default")
    if not names:
        return None
    found = sorted({mount(c) for c in containers_of(pod)} - {"Default"})
    detail = f"{name_containers(names)} must not set securityContext.procMount to {quote(found)}"
    return Finding("procMount", detail)


def check_selinux(pod: Object) -> Finding | None:
    """Only SELinux types for containers, and neither user nor role."""
    setters: list[str] = []
    types: dict[str, None] = {}
    others: dict[str, None] = {}
    for where, holder in _holders(pod):
        options = context_of(holder).get("seLinuxOptions") or {}
        kind = options.get("type") or ""
        keys = [key for key in ("user", "role") if options.get(key)]
        if kind not in _SELINUX:
            types[kind] = None
        others |= dict.fromkeys(keys)
        if keys or kind not in _SELINUX:
            setters.append(where)
    if not setters:
        return None
    values = [f"type{'' if len(types) == 1 else 's'} {quote(types)}"] if types else []
    values += [f"{key} may not be set" for key in ("user", "role") if key in others]
    detail = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: "
    return Finding("seLinuxOptions", detail + "; ".join(values))


def check_seccomp(pod: Object) -> Finding | None:
    """System calls may not be unconfined."""
    setters = [
        where
        for where, holder in _holders(pod)
        if (context_of(holder).get("seccompProfile") or {}).get("type") == "Unconfined"
    ]
    if not setters:
        return None
    detail = (
        f'{" and ".join(setters)} must not set securityContext.seccompProfile.type to "Unconfined"'
    )
    return Finding("seccompProfile", detail)


def check_sysctls(pod: Object) -> Finding | None:
    """Only kernel parameters that concern the pod alone."""
    names = [s.get("name") for s in context_of(pod["spec"]).get("sysctls") or ()]
    found = [str(name) for name in names if name not in _SYSCTLS]
    return Finding("forbidden sysctls", ", ".join(found)) if found else None


def check_host_process(pod: Object) -> Finding | None:
    """No process of the Windows node."""
    setters = [
        where
        for where, holder in _holders(pod)
        if (context_of(holder).get("windowsOptions") or {}).get("hostProcess")
    ]
    if not setters:
        return None
    text = "must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", f"{' and '.join(setters)} {text}")


def _holders(pod: Object) -> Iterator[tuple[str, Object]]:
    """Yield what can have a security context, with its name in messages."""
    yield "pod", pod["spec"]
    for container in containers_of(pod):
        yield f"container {show(container.get('name'))}", container


BASELINE: tuple[Check, ...] = (
    check_app_armor,
    check_capabilities,
    check_host_namespaces,
    check_host_paths,
    check_host_ports,
    check_privileged,
    check_proc_mount,
    check_selinux,
    check_seccomp,
    check_sysctls,
    check_host_process,
)
