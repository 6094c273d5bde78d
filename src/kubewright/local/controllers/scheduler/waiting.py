"""The pods that fit nowhere so far, and what might help them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.local.controllers.pod import is_pod_finished
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.refusal import Plugin
from kubewright.local.controllers.scheduler.requests import pod_requests
from kubewright.local.storage.claim import claim_key, claims_of_pod
from kubewright.runtime.watch import MapFunction

FREED: frozenset[Plugin] = frozenset(
    (
        Plugin.RESOURCES,
        Plugin.PORTS,
        Plugin.VOLUME_RESTRICTIONS,
        Plugin.SPREAD,
        Plugin.POD_AFFINITY,
    )
)
"""Who may let a pod in once another is gone."""
JOINED: frozenset[Plugin] = frozenset((Plugin.SPREAD, Plugin.POD_AFFINITY))
"""Who may let a pod in once another is there, or has other labels."""
STORED: frozenset[Plugin] = frozenset(
    (Plugin.VOLUME_RESTRICTIONS, Plugin.VOLUME_BINDING, Plugin.VOLUME_ZONE)
)
"""Who may let a pod in once claims, volumes or classes change."""
ALL: frozenset[Plugin] = frozenset(Plugin)


class _Wait(msgspec.Struct, frozen=True):
    priority: int
    plugins: frozenset[Plugin]
    claims: frozenset[str]


class Waiting:
    """Remembers who refused each waiting pod, so that a change wakes those that it may help.

    It saves work and decides nothing: a pod that is woken in vain is refused again.
    """

    def __init__(self) -> None:
        self._waits: dict[NamespacedName, _Wait] = {}

    def __iter__(self) -> Iterator[NamespacedName]:
        return iter(self._waits)

    def add(self, pod: Object, plugins: frozenset[Plugin]) -> None:
        """Let a pod wait; without plugins any change may help it."""
        priority = int(pod["spec"].get("priority") or 0)
        claims = frozenset(name for name, _ in claims_of_pod(pod))
        self._waits[NamespacedName.of(pod)] = _Wait(priority, plugins or ALL, claims)

    def remove(self, key: NamespacedName) -> None:
        """Forget a pod that waits no more."""
        self._waits.pop(key, None)

    def helped(self, plugins: frozenset[Plugin]) -> MapFunction:
        """Build the map to the pods that one of some plugins refused, the most important first."""

        def keys(_: Entry) -> Iterable[NamespacedName]:
            found = [key for key, wait in self._waits.items() if wait.plugins & plugins]
            return self._sorted(found)

        return keys

    def helped_by_claim(self, claim: Entry) -> Iterable[NamespacedName]:
        """Return the pods that wait for something of their claims, and mount this one."""
        return self._mounting(claim.key)

    def helped_by_volume(self, volume: Entry) -> Iterable[NamespacedName]:
        """Return the pods that mount the claim which a volume names; a free one may help any."""
        claim = claim_key(volume.object())
        return self.helped(STORED)(volume) if claim is None else self._mounting(claim)

    def _mounting(self, claim: NamespacedName) -> Iterable[NamespacedName]:
        return self._sorted(
            key
            for key, wait in self._waits.items()
            if key.namespace == claim.namespace
            and claim.name in wait.claims
            and wait.plugins & STORED
        )

    def _sorted(self, keys: Iterable[NamespacedName]) -> list[NamespacedName]:
        return sorted(keys, key=lambda key: -self._waits[key].priority)


def _decoded(change: Change) -> tuple[Object | None, Object | None]:
    """Return the object before and after a change."""
    before = None if change.old is None else change.old.object()
    return before, None if change.type is ChangeType.DELETED else change.entry.object()


class PodChanges:
    """What changes of pods mean for others; a change that is asked about twice is read once."""

    def __init__(self) -> None:
        self._last: Change | None = None
        self._read: tuple[Object | None, Object | None] = (None, None)

    def _decode(self, change: Change) -> tuple[Object | None, Object | None]:
        if change is not self._last:
            self._last, self._read = change, _decoded(change)
        return self._read

    def makes_room(self, change: Change) -> bool:
        """Tell whether a pod's room became free, or part of it."""
        if change.type is ChangeType.DELETED:
            return True
        before, after = self._decode(change)
        if before is None or after is None:
            return False
        if _holds_room(before) and (not _holds_room(after) or _shrank(before, after)):
            return True
        # A pod that is ending counts no more for the spread of others.
        return _is_ending(after) and not _is_ending(before)

    def is_company(self, change: Change) -> bool:
        """Tell whether a pod came to a node, or has other labels there."""
        before, after = self._decode(change)
        if after is None or not after["spec"].get("nodeName"):
            return False
        if before is None or not before["spec"].get("nodeName"):
            return True
        return bool(before["metadata"].get("labels") != after["metadata"].get("labels"))

    def lost_nomination(self, change: Change) -> bool:
        """Tell whether room that was being made for a pod is not for it any more."""
        before, after = self._decode(change)
        if before is None or after is None:
            return True
        had = (before.get("status") or {}).get("nominatedNodeName")
        return bool(had) and not (after.get("status") or {}).get("nominatedNodeName")


def node_may_help(change: Change) -> bool:
    """Tell whether a node offers something else than before: heartbeats do not."""
    before, after = _decoded(change)
    if after is None:
        return False
    return before is None or not NodeInfo.of(before).offers_the_same(NodeInfo.of(after))


def _holds_room(pod: Object) -> bool:
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    return bool(pod["spec"].get("nodeName") or nominated) and not is_pod_finished(pod)


def _shrank(before: Object, after: Object) -> bool:
    if before["metadata"].get("generation") == after["metadata"].get("generation") and (
        (before.get("status") or {}).get("containerStatuses")
        == (after.get("status") or {}).get("containerStatuses")
    ):
        return False
    had = pod_requests(before["spec"], before.get("status"))
    has = pod_requests(after["spec"], after.get("status"))
    return any(has.get(name, 0) < amount for name, amount in had.items())


def _is_ending(pod: Object) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None
