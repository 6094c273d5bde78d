"""What the machine says of itself: processors, memory, kernel, distribution."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from kubewright.local.node.node_status import NodeFacts
from kubewright.local.node.runtime import PodRuntime

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def read_facts(name: str, runtime: PodRuntime, address: str, port: int) -> NodeFacts:
    """Read the machine's facts for a node whose endpoint listens at an address and port."""
    system = os.uname()
    return NodeFacts(
        name=name,
        address=address,
        port=port,
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        runtime=runtime.name,
        pod_cidr=runtime.pod_cidr,
        machine=system.machine,
        kernel=system.release,
        os_image=read_os_name(_read("/etc/os-release")),
        machine_id=_read("/etc/machine-id").strip() or uuid.UUID(int=uuid.getnode()).hex,
        boot_id=_read("/proc/sys/kernel/random/boot_id").strip(),
        architecture=ARCHITECTURES.get(system.machine, system.machine),
        is_one_uid=runtime.is_one_uid,
        has_limits=runtime.has_limits,
    )


def read_os_name(os_release: str) -> str:
    """Return the PRETTY_NAME of an os-release file."""
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip('"')
    return "Linux"


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text(errors="replace") if file.exists() else ""
