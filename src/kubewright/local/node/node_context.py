"""What all pods of a node share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from kubewright.api.builtin import CONFIG_MAP, SECRET
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.local.node.environment import References, list_references
from kubewright.local.node.events import PodRecorder
from kubewright.local.node.runtime import PodRuntime
from kubewright.local.node.shared_reads import SharedReads


async def _is_left(_address: str, _seconds: float) -> None:
    """Wait for nothing: there are no Services here that lead anywhere."""


class NodeContext(msgspec.Struct, frozen=True):
    """The node that a pod runs on: its name, its folder, its API client and its runtime.

    `wait_left` waits until no Service leads to an address, a number of seconds at most.
    `pods` lists the pods that are bound to it, `services` the Services that are known, `node` gives
    the Node object as last written, `cluster_dns` the address of the name server, "" where there is
    none.
    """

    name: str
    folder: Path
    client: Client
    runtime: PodRuntime
    clock: Clock
    recorder: PodRecorder
    reads: SharedReads
    services: Callable[[], Sequence[Object]]
    node: Callable[[], Object]
    pods: Callable[[], Sequence[Object]]
    cluster_domain: str = "cluster.local"
    cluster_dns: Callable[[], str] = str
    wait_left: Callable[[str, float], Awaitable[None]] = _is_left

    def pod_folder(self, uid: str) -> Path:
        """The folder with a pod's volumes and files."""
        return self.folder / "pods" / uid

    def log_folder(self, key: NamespacedName, uid: str) -> Path:
        """The folder with a pod's logs, named as under /var/log/pods."""
        return self.folder / "logs" / f"{key.namespace}_{key.name}_{uid}"

    def log_path(self, key: NamespacedName, uid: str, container: str, attempt: int) -> Path:
        """The log of one run of a container."""
        return self.log_folder(key, uid) / container / f"{attempt}.log"

    async def read_references(self, pod: Object) -> References:
        """Read the ConfigMaps and Secrets that a pod names, afresh."""
        namespace = pod["metadata"].get("namespace")
        found: dict[tuple[str, str], Object | None] = {}
        for kind, name in sorted(list_references(pod)):
            resource = SECRET if kind == "Secret" else CONFIG_MAP
            try:
                found[kind, name] = await self.reads.get(resource, name, namespace=namespace)
            except NotFound:
                found[kind, name] = None
        return found
