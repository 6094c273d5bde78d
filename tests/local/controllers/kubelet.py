"""A kubelet in miniature: it reports bound pods as ready and ends deleted ones."""

from __future__ import annotations

import asyncio

from kubewright.api import builtin
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType


class Kubelet:
    """Runs the pods of one namespace on one node.

    Attributes:
        held: pods are bound but do not become ready while this is set.
        names: every pod that was ever seen, also those that are gone.
        fewest: the fewest pods that were ready at once since `watch_availability`.
    """

    resource = builtin.NODE

    def __init__(self, client: Client, namespace: str, node: str) -> None:
        self._client = client
        self._node = node
        self._cache = Cache(client)
        self.pods = self._cache.store(builtin.POD, namespace=namespace)
        self.pods.subscribe(self._on_change)
        self._changed = asyncio.Event()
        self.held = False
        self.names: set[str] = set()
        self.fewest: int | None = None
        self.most = 0

    def watch_availability(self) -> None:
        """Begin to measure the fewest ready pods and the most pods at once."""
        self.fewest, self.most = self.ready(), len(self.pods)

    def ready(self) -> int:
        """Count the pods that are ready and not ending."""
        return sum(
            _is_ready(entry.object()) for entry in self.pods.list() if not entry.meta.is_deleting
        )

    def release(self) -> None:
        """Let pods become ready."""
        self.held = False
        self._changed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                for entry in self.pods.list():
                    await self._serve(entry.object())

    def _on_change(self, change: Change) -> None:
        if change.type is not ChangeType.DELETED:
            self.names.add(change.entry.meta.name)
        if self.fewest is not None:
            self.fewest = min(self.fewest, self.ready())
            living = [entry for entry in self.pods.list() if not entry.meta.is_deleting]
            self.most = max(self.most, len(living))
        self._changed.set()

    async def _serve(self, pod: Object) -> None:
        metadata = pod["metadata"]
        key = NamespacedName.of(pod)
        try:
            if metadata.get("deletionTimestamp"):
                await self._client.delete(
                    builtin.POD,
                    key.name,
                    namespace=key.namespace,
                    uid=metadata["uid"],
                    grace_period_seconds=0,
                )
            elif pod["spec"].get("nodeName") and not _is_ready(pod) and not self.held:
                await self._client.patch(
                    builtin.POD,
                    key.name,
                    build_ready_status(),
                    type=PatchType.STRATEGIC,
                    namespace=key.namespace,
                    subresource="status",
                )
        except (NotFound, Conflict):
            return


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def build_ready_status() -> Object:
    """Build the patch that reports a pod as running and ready."""
    now = format_time(SystemClock().now())
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    return {"status": {"phase": "Running", "podIP": "10.9.9.9", "conditions": [condition]}}
