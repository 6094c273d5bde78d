"""What a pod asks of a node: resources and ports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kubewright.api.conditions import find_condition
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

CPU, MEMORY, PODS = "cpu", "memory", "pods"

Amounts = dict[str, int]
"""Resources by name: cpu in thousandths, everything else in its own unit."""

# What a container without requests is taken to need when nodes are compared, not when they filter.
_ASSUMED: Amounts = {CPU: 100, MEMORY: 200 * 1024 * 1024}
_HUGE_PAGES = "hugepages-"


@lru_cache(maxsize=4096)
def _parse(name: str, text: str) -> int:
    quantity = Quantity(text)
    return quantity.to_milli() if name == CPU else quantity.to_int()


def parse_amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Read a resource list."""
    return {name: _parse(name, str(value)) for name, value in (quantities or {}).items()}


def pod_requests(spec: Object, status: Object | None = None) -> Amounts:
    """Add up what a pod requests.

    Containers run together, with init containers that go on (sidecars, KEP-753); other init
    containers run alone beside the sidecars started before them. The larger need counts. Requests
    of the pod as a whole take the place of that sum (KEP-2837), and overhead comes on top.

    With the status of a pod on a node, what was allocated to its containers counts where it is
    more: a resize gives room back only when it is done (KEP-1287).
    """
    if not status or not status.get("containerStatuses"):
        return _complete(spec, _aggregate(spec, _requests))
    found = _largest(
        _aggregate(spec, _status_reader(status, _allocated)),
        _aggregate(spec, _status_reader(status, _actuated)),
    )
    if not _is_resize_infeasible(status):
        found = _largest(found, _aggregate(spec, _requests))
    return _complete(spec, found)


def weighed_requests(spec: Object) -> tuple[int, int]:
    """Return cpu and memory of a pod as nodes are compared: what is not said is not nothing."""
    found = _complete(spec, _aggregate(spec, lambda container: _ASSUMED | _requests(container)))
    return found.get(CPU, 0), found.get(MEMORY, 0)


def _aggregate(spec: Object, read: Callable[[Object], Amounts]) -> Amounts:
    running = _sum(read(container) for container in spec.get("containers") or ())
    if not spec.get("initContainers"):
        return running
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec["initContainers"]:
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, read(container)])
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, _sum([sidecars, read(container)]))
    return _largest(_sum([running, sidecars]), starting)


def _complete(spec: Object, amounts: Amounts) -> Amounts:
    whole = parse_amounts((spec.get("resources") or {}).get("requests"))
    for name, amount in whole.items():
        if name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES):
            amounts[name] = amount
    overhead = spec.get("overhead")
    return _sum([amounts, parse_amounts(overhead)]) if overhead else amounts


def _requests(container: Object) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get("requests"))


def _status_reader(
    status: Object, read: Callable[[Object], Mapping[str, Any] | None]
) -> Callable[[Object], Amounts]:
    statuses = {
        reported["name"]: reported
        for field in ("containerStatuses", "initContainerStatuses")
        for reported in status.get(field) or ()
    }
    return lambda container: parse_amounts(read(statuses.get(container.get("name", "")) or {}))


def _allocated(reported: Object) -> Mapping[str, Any] | None:
    return reported.get("allocatedResources")


def _actuated(reported: Object) -> Mapping[str, Any] | None:
    return (reported.get("resources") or {}).get("requests")


def _is_resize_infeasible(status: Object) -> bool:
    pending = find_condition(status.get("conditions") or (), "PodResizePending")
    return pending is not None and pending.get("reason") == "Infeasible"


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amount in amounts:
        for name, value in amount.items():
            total[name] = total.get(name, 0) + value
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


class HostPort(NamedTuple):
    """A port that a pod takes on its node; an empty address stands for all."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Tell whether both cannot be on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return not self.address or not other.address or self.address == other.address


def pod_ports(spec: Object) -> tuple[HostPort, ...]:
    """Return the ports that a pod takes on its node; init containers count when they go on."""
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    ports = []
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or ""
                address = "" if address in ("0.0.0.0", "::") else address
                ports.append(HostPort(address, port.get("protocol") or "TCP", port["hostPort"]))
    return tuple(ports)
