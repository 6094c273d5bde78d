"""A kubelet in miniature for Jobs: pods end as a test says, deleted ones go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from kubewright.api import builtin
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType

Outcome: TypeAlias = Callable[[Object], int | None]
"""The exit code that a pod ends with; None while it runs."""


class PodEnder:
    """Ends the pods of one namespace.

    Attributes:
        names: every pod that was ever seen, also those that are gone.
        outcome: how pods end; `look` asks again when the answer has changed.
    """

    def __init__(self, client: Client, namespace: str, outcome: Outcome) -> None:
        self._client = client
        self._cache = Cache(client)
        self.pods = self._cache.store(builtin.POD, namespace=namespace)
        self.pods.subscribe(self._on_change)
        self._changed = asyncio.Event()
        self.names: set[str] = set()
        self.outcome = outcome

    def look(self) -> None:
        """Look at all pods again."""
        self._changed.set()

    def of_job(self, job: str) -> set[str]:
        """Return the names of all pods that a Job ever had."""
        return {name for name in self.names if name.startswith(f"{job}-")}

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
        self._changed.set()

    async def _serve(self, pod: Object) -> None:
        metadata, key = pod["metadata"], NamespacedName.of(pod)
        try:
            if metadata.get("deletionTimestamp"):
                await self._client.delete(
                    builtin.POD,
                    key.name,
                    namespace=key.namespace,
                    uid=metadata["uid"],
                    grace_period_seconds=0,
                )
            elif (patch := self._build_status(pod)) is not None:
                await self._client.patch(
                    builtin.POD,
                    key.name,
                    patch,
                    type=PatchType.STRATEGIC,
                    namespace=key.namespace,
                    subresource="status",
                )
        except (NotFound, Conflict):
            return

    def _build_status(self, pod: Object) -> Object | None:
        phase = pod["status"].get("phase")
        if phase in ("Succeeded", "Failed"):
            return None
        code = self.outcome(pod)
        now = format_time(SystemClock().now())
        if code is None:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            running = {"phase": "Running", "conditions": [ready]}
            return None if phase == "Running" else {"status": running}
        ended = {"exitCode": code, "startedAt": now, "finishedAt": now}
        container = {"name": "c", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
        return {
            "status": {
                "phase": "Failed" if code else "Succeeded",
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
                "containerStatuses": [{**container, "state": {"terminated": ended}}],
            }
        }


def runs(_: Object) -> int | None:
    return None


def succeeds(_: Object) -> int | None:
    return 0
