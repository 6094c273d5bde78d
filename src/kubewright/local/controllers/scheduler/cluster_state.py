"""The scheduler's view of nodes and pods, kept up to date from the stores."""

from __future__ import annotations

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.local.controllers.scheduler.pod_info import (
    NodeInfo,
    PodInfo,
    takes_room,
)


class ClusterState:
    """Nodes, the pods on them, and the pods that this scheduler has just sent to them.

    A pod that was bound is *assumed* on its node until the store shows it there: the next decision
    must not give its room away.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, dict[NamespacedName, PodInfo]] = {}
        self._places: dict[NamespacedName, str] = {}
        self._assumed: dict[NamespacedName, PodInfo] = {}
        self._nominated: dict[NamespacedName, PodInfo] = {}

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
        else:
            self._nodes[name] = NodeInfo.of(change.entry.object())

    def on_pod(self, change: Change) -> None:
        """Take a change of a pod."""
        key = change.entry.meta.key
        pod = None if change.type is ChangeType.DELETED else change.entry.object()
        self._nominated.pop(key, None)
        if key in self._places:
            self._pods[self._places.pop(key)].pop(key, None)
        assumed = self._assumed.get(key)
        if assumed is not None and (pod is None or self._settles(assumed, pod)):
            del self._assumed[key]
        if pod is None:
            return
        if takes_room(pod):
            info = PodInfo.of(pod)
            self._places[key] = info.node
            self._pods.setdefault(info.node, {})[key] = info
        elif (pod.get("status") or {}).get("nominatedNodeName"):
            self._nominated[key] = PodInfo.of(pod)

    @staticmethod
    def _settles(assumed: PodInfo, pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName")) or pod["metadata"]["uid"] != assumed.uid

    def assume(self, pod: Object, node: str) -> None:
        """Count a pod as being on a node from now on."""
        info = PodInfo.of(pod, node)
        if info.key not in self._places:
            self._assumed[info.key] = info

    def forget(self, key: NamespacedName) -> None:
        """Take back an assumption: the pod was not bound."""
        self._assumed.pop(key, None)

    def nodes(self, pod: Object) -> list[NodeInfo]:
        """Return all nodes as they are for a pod.

        Room that was made for a nominated pod of at least its priority counts as taken.
        """
        info = PodInfo.of(pod)
        reserved = [
            other
            for other in self._nominated.values()
            if other.key != info.key and other.priority >= info.priority
        ]
        return [
            node.with_pods(
                [
                    *self._pods.get(name, {}).values(),
                    *(p for p in self._assumed.values() if p.node == name),
                    *(p for p in reserved if p.nominated_node == name),
                ]
            )
            for name, node in self._nodes.items()
        ]
