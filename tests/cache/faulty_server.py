"""A model of an API server's lists and watches, with faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubewright.api.errors import TransportError
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream
from tests.client.scripted_transport import event, failure, listing, pod, status_object

PAGE = 2


@dataclass
class FaultyServer:
    """Pods in one namespace, one revision counter, and the history that watches are served from.

    `compact` forgets the history; `break_watches` and `close_watches` end the open ones. Each
    watch replays up to `stutter` old events first, and `cuts` says how finely it is chopped.
    """

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    revision: int = 1
    compacted: int = 0
    stutter: int = 0
    cut: int = 1_000
    expires_as_event: bool = False
    has_watch_list: bool = False
    outage: int = 0
    history: list[tuple[int, bytes]] = field(default_factory=list)
    _made: int = 0
    _backup: tuple[int, dict[str, dict[str, Any]]] | None = None
    _wakers: dict[int, asyncio.Queue[Exception | None]] = field(default_factory=dict)
    _snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)

    def put(self, name: str) -> None:
        """Create or change a pod."""
        self.revision += 1
        old = self.pods.get(name)
        self._made += old is None
        uid = old["metadata"]["uid"] if old else f"uid-{self._made}"
        self.pods[name] = pod(name, self.revision, uid=uid)
        self._record("MODIFIED" if old else "ADDED", self.pods[name])

    def delete(self, name: str) -> None:
        """Delete a pod, if it is there; its last event has the version of the deletion."""
        old = self.pods.pop(name, None)
        if old is not None:
            self.revision += 1
            self._record("DELETED", pod(name, self.revision, uid=old["metadata"]["uid"]))

    def compact(self) -> None:
        self.compacted = self.revision
        self.history.clear()

    def back_up(self) -> None:
        self._backup = (self.revision, {**self.pods})

    def restore(self) -> None:
        """Go back to the backup; the versions since then are given out again."""
        if self._backup is not None:
            self.revision, pods = self._backup
            self.pods = {**pods}
            self.compacted = min(self.compacted, self.revision)
            self.history = [(at, line) for at, line in self.history if at <= self.revision]
            self._snapshots.clear()
            # It was away for a moment at least.
            self.outage = max(self.outage, 1)
            self.break_watches()

    def break_watches(self) -> None:
        self._wake(TransportError("reset by peer"))

    def close_watches(self) -> None:
        self._wake(StopAsyncIteration())

    def _record(self, type: str, obj: dict[str, Any]) -> None:
        self.history.append((self.revision, event(type, obj)))
        self._wake(None)

    def _wake(self, signal: Exception | None) -> None:
        for queue in self._wakers.values():
            queue.put_nowait(signal)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        await asyncio.sleep(0)
        self._fail_in_outage()
        asked = dict(query)
        token = asked.get("continue", "")
        version, items = self._snapshots.get(token, (self.revision, [*self.pods.values()]))
        if token and (token not in self._snapshots or version < self.compacted):
            return failure(410, "Expired", "the continue token is too old")
        if "limit" not in asked or len(items) <= PAGE:
            return listing(version, *items)
        rest = f"t{len(self._snapshots)}"
        self._snapshots[rest] = (version, items[PAGE:])
        return listing(version, *items[:PAGE], token=rest)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncGenerator[Stream]:
        await asyncio.sleep(0)
        self._fail_in_outage()
        asked = dict(query)
        if "sendInitialEvents" in asked and not self.has_watch_list:
            refusal = failure(422, "Invalid", "sendInitialEvents is forbidden")
            yield Stream(422, {}, _once(refusal.body))
            return
        version = int(asked.get("resourceVersion", self.revision))
        if version < self.compacted and not self.expires_as_event:
            yield Stream(410, {}, _once(failure(410, "Expired").body))
            return
        number = len(self._wakers) + 1
        self._wakers[number] = asyncio.Queue()
        try:
            initial = "sendInitialEvents" in asked
            yield Stream(200, {}, self._chop(self._events(version, initial, self._wakers[number])))
        finally:
            del self._wakers[number]

    async def close(self) -> None:
        """Hold nothing that must be ended."""

    def _fail_in_outage(self) -> None:
        if self.outage:
            self.outage -= 1
            raise TransportError("connection refused")

    async def _events(
        self, version: int, initial: bool, queue: asyncio.Queue[Exception | None]
    ) -> AsyncIterator[bytes]:
        if initial:
            for obj in [*self.pods.values()]:
                yield event("ADDED", obj)
            end = {"resourceVersion": str(version), "annotations": _INITIAL_END}
            yield event("BOOKMARK", {"kind": "Pod", "metadata": end})
        sent = version if initial else version - self.stutter
        while True:
            if sent < self.compacted and version < self.compacted:
                yield event("ERROR", status_object(410, "Expired"))
                return
            for revision, line in [*self.history]:
                if revision > sent:
                    yield line
                    sent = version = revision
            signal = await queue.get()
            if isinstance(signal, StopAsyncIteration):
                return
            if signal is not None:
                raise signal

    async def _chop(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            for start in range(0, len(line), self.cut):
                yield line[start : start + self.cut]


_INITIAL_END = {"k8s.io/initial-events-end": "true"}


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def state_of(pods: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return what must agree between two views: names, uids, versions."""
    decoded = [msgspec.convert(pod["metadata"], dict[str, Any]) for pod in pods]
    return {(meta["name"], meta["uid"], meta["resourceVersion"]) for meta in decoded}
