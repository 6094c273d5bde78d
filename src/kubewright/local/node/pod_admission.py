"""Whether a node takes a pod that is bound to it, as the kubelet decides when it first sees it."""

from __future__ import annotations

from kubewright.api.resource import Object

SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_notsent_lowat",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""What a pod may set for itself without touching others (KEP-34)."""


def find_refusal(pod: Object) -> tuple[str, str] | None:
    """Return the reason and the message with which a pod is rejected; None for one that is taken.

    A rejected pod is Failed and nothing of it runs.
    """
    spec = pod["spec"]
    for entry in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = str(entry["name"]).replace("/", ".")
        problem = ""
        if name not in SAFE_SYSCTLS:
            problem = f'"{name}" not allowlisted'
        elif spec.get("hostNetwork") and name.startswith("net."):
            problem = f'"{name}" not allowed with host Net enabled'
        elif spec.get("hostIPC") and name.startswith("kernel."):
            problem = f'"{name}" not allowed with host IPC enabled'
        if problem:
            return "SysctlForbidden", f"forbidden sysctl: {problem}"
    return None
