"""Usage over time: rates from the last two looks at each node. In memory only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.local.metrics_server.exposition import Point, Reading

YOUNG = timedelta(minutes=1)
"""A container that started so short ago is measured since its start, at the first look."""

STALE = timedelta(minutes=2)
"""What a node that does not answer told counts for so long."""


class Rate(msgspec.Struct, frozen=True):
    """What something used of processors in the `window` before `time`, and its memory then."""

    time: datetime
    window: timedelta
    cores: float
    memory_bytes: int


class UsageStore:
    """The last two readings of every node."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._before: dict[str, Reading] = {}

    @property
    def is_settled(self) -> bool:
        """Tell whether every node that answered has done so twice."""
        return self._last.keys() == self._before.keys()

    def note(self, node: str, reading: Reading) -> None:
        """Take a new reading of a node; one of the same moment as the last takes its place."""
        last = self._last.get(node)
        if last is not None and last.node.time < reading.node.time:
            self._before[node] = last
        self._last[node] = reading

    def retain(self, nodes: set[str], now: datetime) -> None:
        """Forget the nodes that are gone, and those that have not answered for long."""
        for name, reading in list(self._last.items()):
            if name not in nodes or now - reading.node.time > STALE:
                self._last.pop(name)
                self._before.pop(name, None)

    def node_rate(self, name: str) -> Rate | None:
        """Return the usage of a node; None while it is not known."""
        last, before = self._last.get(name), self._before.get(name)
        return None if last is None else build_rate(last.node, before.node if before else None)

    def pod_rates(self, key: NamespacedName) -> Mapping[str, Rate] | None:
        """Return the usage of a pod's containers; None while one of them is not known."""
        for node, reading in self._last.items():
            if key in reading.pods:
                before = self._before.get(node)
                earlier = before.pods.get(key, {}) if before else {}
                rates = {
                    name: build_rate(point, earlier.get(name))
                    for name, point in reading.pods[key].items()
                }
                whole = {name: rate for name, rate in rates.items() if rate is not None}
                return whole if whole and len(whole) == len(rates) else None
        return None


def build_rate(last: Point, before: Point | None) -> Rate | None:
    """Build the rate between two points; of a young container one point is enough."""
    if last.cpu_seconds is None or last.memory_bytes is None:
        return None
    since, used = last.started, 0.0
    is_older = before is not None and (last.started is None or last.started <= before.time)
    if before is not None and is_older and before.cpu_seconds is not None:
        since, used = before.time, before.cpu_seconds
    elif since is None or last.time - since > YOUNG:
        return None
    window = last.time - since
    if window <= timedelta() or last.cpu_seconds < used:
        return None
    cores = (last.cpu_seconds - used) / window.total_seconds()
    return Rate(last.time, window, cores, last.memory_bytes)
