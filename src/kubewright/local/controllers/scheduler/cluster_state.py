"""The scheduler's view of nodes and pods, kept up to date from the stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.local.controllers.pod import is_pod_finished, is_pod_terminating
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.placement import Reserved
from kubewright.local.controllers.scheduler.pod_info import PodInfo, takes_room

NAME = "default-scheduler"


def needs_scheduling(pod: Object) -> bool:
    """Tell whether a pod waits for this scheduler."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or NAME) == NAME
        and not is_pod_terminating(pod)
        and not is_pod_finished(pod)
    )


class ClusterState:
    """Nodes, the pods on them, and the pods that this scheduler has just sent to them.

    A pod that was bound is *assumed* on its node until the store shows it there: the next decision
    must not give its room away. So is one that waits for its volumes on the node.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._placed: dict[NamespacedName, PodInfo] = {}
        self._by_node: dict[str, dict[NamespacedName, PodInfo]] = {}
        # Whether it was bound, or waits for its volumes first.
        self._assumed: dict[NamespacedName, bool] = {}
        self._nominated: dict[NamespacedName, PodInfo] = {}
        self._pending: dict[NamespacedName, int] = {}
        self._priorities: Counter[int] = Counter()

    def set_up(self, cache: Cache) -> None:
        """Follow the stores of pods and nodes."""
        for store, listener in (
            (cache.store(builtin.NODE), self.on_node),
            (cache.store(builtin.POD), self.on_pod),
        ):
            store.subscribe(listener)
            for entry in store.list():
                listener(Change(ChangeType.ADDED, entry))

    def on_node(self, change: Change) -> None:
        """Take a change of a node."""
        name = change.entry.meta.name
        if change.type is ChangeType.DELETED:
            self._nodes.pop(name, None)
            return
        fresh = NodeInfo.of(change.entry.object())
        known = self._nodes.get(name)
        self._nodes[name] = (
            fresh.with_pods(self._by_node.get(name, {}).values())
            if known is None
            else known.with_offer(fresh)
        )

    def on_pod(self, change: Change) -> None:
        """Take a change of a pod."""
        key = change.entry.meta.key
        pod = None if change.type is ChangeType.DELETED else change.entry.object()
        self._nominated.pop(key, None)
        if key in self._pending:
            self._priorities[self._pending.pop(key)] -= 1
        if pod is not None and takes_room(pod):
            self._assumed.pop(key, None)
            self._put(PodInfo.of(pod))
            return
        waits = pod is not None and needs_scheduling(pod)
        if not (waits and self._is_assumed(key, pod)):
            self._assumed.pop(key, None)
            self._remove(key)
        if pod is not None and waits:
            self._pending[key] = priority = int(pod["spec"].get("priority") or 0)
            self._priorities[priority] += 1
            if (pod.get("status") or {}).get("nominatedNodeName"):
                self._nominated[key] = PodInfo.of(pod)

    def _is_assumed(self, key: NamespacedName, pod: Object | None) -> bool:
        uid = pod["metadata"]["uid"] if pod else ""
        return key in self._assumed and self._placed[key].uid == uid

    def _put(self, info: PodInfo) -> None:
        before = self._placed.get(info.key)
        if before == info:
            return
        if before is not None:
            self._remove(info.key)
        self._placed[info.key] = info
        self._by_node.setdefault(info.node, {})[info.key] = info
        if node := self._nodes.get(info.node):
            self._nodes[info.node] = node.with_pod(info)

    def _remove(self, key: NamespacedName) -> None:
        info = self._placed.pop(key, None)
        if info is None:
            return
        del self._by_node[info.node][key]
        if not self._by_node[info.node]:
            del self._by_node[info.node]
        if node := self._nodes.get(info.node):
            self._nodes[info.node] = node.without_pod(key)

    def assume(self, pod: Object, node: str, *, is_bound: bool) -> None:
        """Count a pod as being on a node from now on."""
        info = PodInfo.of(pod, node)
        if info.key not in self._placed or info.key in self._assumed:
            self._assumed[info.key] = is_bound
            self._put(info)

    def is_bound(self, pod: Object) -> bool:
        """Tell whether a pod was bound and only its store does not show it yet."""
        key = NamespacedName.of(pod)
        return self._is_assumed(key, pod) and self._assumed[key]

    def forget(self, key: NamespacedName) -> None:
        """Take back an assumption: the pod was not bound."""
        if key in self._assumed:
            self._assumed.pop(key, None)
            self._remove(key)

    def nodes(self) -> list[NodeInfo]:
        """Return all nodes."""
        return list(self._nodes.values())

    def reserved(self, info: PodInfo) -> Reserved:
        """Return the pods of at least a pod's priority for which room is being made, by node."""
        reserved: dict[str, list[PodInfo]] = {}
        for other in self._nominated.values():
            if other.key in self._placed or other.key == info.key:
                continue
            if other.priority >= info.priority and other.nominated_node in self._nodes:
                reserved.setdefault(other.nominated_node, []).append(other)
        return reserved

    def outranked(self, node: str, priority: int) -> list[NamespacedName]:
        """Return the pods of a lower priority for which room was to be made on a node."""
        return [
            info.key
            for info in self._nominated.values()
            if info.nominated_node == node and info.priority < priority
        ]

    def more_urgent(
        self, priority: int, tried: Iterable[NamespacedName]
    ) -> Sequence[NamespacedName]:
        """Return the pods of higher priority that were not tried yet, the highest first."""
        if not any(count and other > priority for other, count in self._priorities.items()):
            return ()
        passed = {*tried, *self._assumed}
        found = [
            key for key, other in self._pending.items() if other > priority and key not in passed
        ]
        return sorted(found, key=lambda key: -self._pending[key])
