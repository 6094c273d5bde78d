"""What the scheduler keeps of a pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.local.controllers.pod import is_pod_finished, is_pod_terminating
from kubewright.local.controllers.scheduler.affinity import PodTerms
from kubewright.local.controllers.scheduler.requests import (
    HostPort,
    pod_ports,
    pod_requests,
    weighed_requests,
)


class Owner(NamedTuple):
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


class PodInfo(msgspec.Struct, frozen=True):
    """A pod in numbers; `node` is where it is, or was assumed to be."""

    key: NamespacedName
    uid: str
    node: str
    labels: Mapping[str, str]
    priority: int
    requests: Mapping[str, int]
    weighed: tuple[int, int]
    ports: tuple[HostPort, ...]
    terms: PodTerms
    claims: tuple[str, ...] = ()
    controller: Owner | None = None
    nominated_node: str = ""
    is_terminating: bool = False
    start: str = ""

    @classmethod
    def of(cls, pod: Object, node: str | None = None) -> PodInfo:
        """Read a decoded pod; `node` overrides the node that it names."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        owner = controller_of(pod)
        return cls(
            key=NamespacedName.of(pod),
            uid=metadata.get("uid") or "",
            node=node or spec.get("nodeName") or "",
            labels=metadata.get("labels") or {},
            priority=int(spec.get("priority") or 0),
            requests=pod_requests(spec, status if spec.get("nodeName") else None),
            weighed=weighed_requests(spec),
            ports=pod_ports(spec),
            terms=PodTerms.of(spec, metadata.get("namespace") or ""),
            claims=tuple(claim_names(pod)),
            controller=Owner(owner["kind"], owner["name"], owner["uid"]) if owner else None,
            nominated_node=status.get("nominatedNodeName") or "",
            is_terminating=is_pod_terminating(pod),
            start=status.get("startTime") or metadata.get("creationTimestamp") or "",
        )


def claim_names(pod: Object) -> list[str]:
    """Return the names of the claims that a pod mounts, those made for it among them."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return names


def takes_room(pod: Object) -> bool:
    """Tell whether a pod takes room on its node: a finished one does not."""
    return bool(pod["spec"].get("nodeName")) and not is_pod_finished(pod)
