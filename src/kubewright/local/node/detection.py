"""Which runtime this machine can have, and what to do for a better one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from kubewright.local.node.process import run

PROGRAMS = {"unshare": "util-linux", "ip": "iproute2"}


class Detection(msgspec.Struct, frozen=True):
    """Whether pods can run as processes. `reason` says why not and what to do, in one sentence."""

    processes: bool
    reason: str = ""


async def detect_runtime() -> Detection:
    """Tell whether pods can run as processes of this machine, by trying what they need."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=search_path()) is None:
            return Detection(False, f"`{program}` is missing: install the package {package}")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--mount-proc", "--"]
    script = (
        "ip link add pods type bridge && ip link add pod1 type veth peer name pod2 && "
        "echo 1 > /proc/sys/net/ipv4/ip_forward"
    )
    code, output = await run([*argv, "sh", "-c", script])
    if code == 0:
        return Detection(True)
    if os.geteuid() != 0 and (advice := _explain_user_namespaces()):
        return Detection(False, advice)
    last = output.strip().splitlines()[-1:] or [f"unshare ended with status {code}"]
    return Detection(
        False,
        f"namespaces with a bridge cannot be made ({last[0]}): run as root, or in a container "
        "that may make user namespaces and has its /proc unmasked",
    )


def search_path() -> str:
    """Return $PATH with the folders of system programs, which ordinary users often lack."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def _explain_user_namespaces() -> str:
    """Return which setting keeps an ordinary user from making user namespaces; "" if none does."""
    switches = {
        "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
        "kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=65536"),
    }
    for name, (bad, remedy) in switches.items():
        file = Path("/proc/sys", name)
        if file.exists() and file.read_text().strip() == bad:
            return f"user namespaces are disabled: as root, run `{remedy}`"
    return ""
