"""What a container may use of the machine: requests and limits in the units of the kernel. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

CPU_PERIOD = 100_000
"""Microseconds, as the kubelet sets them; no quota is below a hundredth of it."""

MIN_QUOTA, MIN_SHARES, MAX_SHARES = 1000, 2, 262_144


class ContainerResources(msgspec.Struct, frozen=True):
    """The requests and limits of a container that the kernel can hold it to.

    `cpu_request` and `cpu_limit` are in thousandths of a processor, `memory_limit` is in bytes.
    None stands for no limit.
    """

    cpu_request: int = 0
    cpu_limit: int | None = None
    memory_limit: int | None = None

    @property
    def is_limited(self) -> bool:
        """Tell whether there is a limit to enforce."""
        return self.cpu_limit is not None or self.memory_limit is not None

    @property
    def cpu_shares(self) -> int:
        """The weight for the first version of control groups."""
        return min(MAX_SHARES, max(MIN_SHARES, self.cpu_request * 1024 // 1000))

    @property
    def cpu_weight(self) -> int:
        """The weight for the second version of control groups."""
        return 1 + (self.cpu_shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)

    @property
    def cpu_quota(self) -> int | None:
        """The microseconds of processor time in each period."""
        if not self.cpu_limit:
            return None
        return max(MIN_QUOTA, self.cpu_limit * CPU_PERIOD // 1000)


def build_resources(pod: Object, container: Object) -> ContainerResources:
    """Build what a container is held to; a limit of the pod counts where it has none of its own.

    A cpu limit without a request is the request too, as the API server defaults it.
    """
    resources = container.get("resources") or {}
    limits: Mapping[str, object] = resources.get("limits") or {}
    requests: Mapping[str, object] = resources.get("requests") or {}
    of_pod = ((pod.get("spec") or {}).get("resources") or {}).get("limits") or {}
    cpu_limit = _milli({**of_pod, **limits}, "cpu")
    memory_limit = {**of_pod, **limits}.get("memory")
    return ContainerResources(
        cpu_request=_milli(requests, "cpu") or (_milli(limits, "cpu") or 0),
        cpu_limit=cpu_limit,
        memory_limit=Quantity(str(memory_limit)).to_int() if memory_limit else None,
    )


def _milli(amounts: Mapping[str, object], name: str) -> int | None:
    amount = amounts.get(name)
    return int(Quantity(str(amount)).value * 1000) if amount else None
