"""Which nodes a DaemonSet's pods belong on, and who is there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.daemonset.daemon_set import DaemonSet
from kubewright.local.controllers.daemonset.pod import build_tolerations, target_node
from kubewright.local.controllers.pod import (
    is_pod_available,
    is_pod_finished,
    is_pod_terminating,
)
from kubewright.local.controllers.scheduler.node_affinity import matches_node, tolerates
from kubewright.local.controllers.scheduler.node_info import NodeInfo


class Fit(msgspec.Struct, frozen=True):
    """Whether a node should get a pod, and whether one that is there may stay."""

    runs: bool
    stays: bool


class Placement(msgspec.Struct, frozen=True, dict=True):
    """A DaemonSet with its nodes and pods; `hashed` is the hash of its template of now."""

    daemon_set: DaemonSet
    nodes: Sequence[NodeInfo]
    pods: Sequence[Object]
    hashed: str
    now: datetime

    @cached_property
    def by_node(self) -> Mapping[str, list[Object]]:
        """The pods of each node, the oldest first.

        One that has ended and was asked to end is over: it only waits to be taken away.
        """
        found: dict[str, list[Object]] = {}
        for pod in sorted(self.pods, key=_age):
            node = target_node(pod)
            if node is not None and not (is_pod_finished(pod) and is_pod_terminating(pod)):
                found.setdefault(node, []).append(pod)
        return found

    @cached_property
    def fits(self) -> Mapping[str, Fit]:
        """Whether the pods belong on each node."""
        tolerations = build_tolerations(self.daemon_set)
        return {node.name: find_fit(self.daemon_set, node, tolerations) for node in self.nodes}

    @property
    def wanted(self) -> list[str]:
        """The nodes that should have a pod."""
        return sorted(name for name, fit in self.fits.items() if fit.runs)

    def is_available(self, pod: Object) -> bool:
        """Tell whether a pod has been ready for long enough."""
        return is_pod_available(pod, self.daemon_set.min_ready_seconds, self.now)

    def is_updated(self, pod: Object) -> bool:
        """Tell whether a pod was made of the template of now."""
        return self.daemon_set.is_updated(pod, self.hashed)


def find_fit(daemon_set: DaemonSet, node: NodeInfo, tolerations: Iterable[Object]) -> Fit:
    """Tell whether a DaemonSet's pods belong on a node.

    A taint that came later, and does not evict, lets a pod stay.
    """
    named = daemon_set.pod_spec.get("nodeName")
    if (named and named != node.name) or not matches_node(daemon_set.pod_spec, node):
        return Fit(runs=False, stays=False)
    untolerated = {
        taint.get("effect") for taint in node.taints if not tolerates(tolerations, taint)
    }
    return Fit(
        runs=not untolerated & {"NoSchedule", "NoExecute"}, stays="NoExecute" not in untolerated
    )


def _age(pod: Object) -> tuple[bool, str, str]:
    metadata = pod["metadata"]
    has_node = bool(pod["spec"].get("nodeName"))
    return not has_node, metadata.get("creationTimestamp") or "", metadata["name"]
