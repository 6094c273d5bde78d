"""The addresses of pods: a /24 for each node, that nothing else on the machine has a way to."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from kubewright.api.errors import ConfigurationError, KubewrightError

POD_NETWORK = IPv4Network("10.244.0.0/16")


class NetworkError(KubewrightError):
    """The pod network refused a request, or its holder is gone."""


class AddressPool:
    """The addresses of a pod network. A freed one is handed out again as late as possible."""

    def __init__(self, network: IPv4Network) -> None:
        self.network = network
        self.gateway = str(network[1])
        self.host = str(network[-2])
        self._used: set[int] = set()
        self._next = 2

    def allocate(self) -> str:
        """Take the next free address.

        Raises:
            NetworkError: all are taken.
        """
        first, last = 2, self.network.num_addresses - 3
        for _ in range(first, last + 1):
            candidate, self._next = self._next, self._next + 1 if self._next < last else first
            if candidate not in self._used:
                self._used.add(candidate)
                return str(self.network[candidate])
        raise NetworkError(f"all {last - first + 1} pod addresses of {self.network} are in use")

    def includes(self, address: str) -> bool:
        """Tell whether an address is one of this network's."""
        return bool(address) and IPv4Address(address) in self.network

    def take(self, address: str) -> None:
        """Take an address that a pod has already."""
        self._used.add(int(IPv4Address(address)) - int(self.network[0]))

    def release(self, address: str) -> None:
        """Give an address back."""
        self._used.discard(int(IPv4Address(address)) - int(self.network[0]))


def choose_network(
    taken: Sequence[IPv4Network],
    preferred: IPv4Network | None = None,
    *,
    is_hint: bool = False,
) -> IPv4Network:
    """Choose a /24 of the pod network that overlaps no route of the host.

    One that is preferred, and no mere hint, is the only candidate.

    Raises:
        ConfigurationError: every one of them is taken.
    """
    candidates = [preferred] if preferred else []
    if preferred is None or is_hint:
        candidates += POD_NETWORK.subnets(new_prefix=24)
    for candidate in candidates:
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise ConfigurationError(
        f"no free network for pods: the host has routes into {preferred or POD_NETWORK}; "
        "stop a cluster that runs, or pass another --pod-cidr"
    )


async def read_host_routes() -> list[IPv4Network]:
    """Read the destinations of the host's routes, without the default route."""
    text = await asyncio.to_thread(Path("/proc/net/route").read_text)
    routes = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        address, mask = (struct.pack("<L", int(fields[i], 16)) for i in (1, 7))
        if mask != b"\0\0\0\0":
            prefix = int.from_bytes(mask).bit_count()
            routes.append(IPv4Network((int.from_bytes(address), prefix)))
    return routes
