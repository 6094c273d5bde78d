"""A transport that answers from a script, and a clock that nobody waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kubewright.client.transport import NO_HEADERS, Query, Response, Stream


@dataclass(frozen=True)
class Call:
    """A request as the transport saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Script:
    """A stream's answer: its chunks, then after `lasts` seconds a clean end or an error."""

    chunks: Sequence[bytes] = ()
    error: Exception | None = None
    status: int = 200
    hangs: bool = False
    lasts: float = 0.0


@dataclass
class ScriptedTransport:
    """Give the replies in order; when they are used up, say so and never answer again."""

    replies: deque[Response | Script | Exception]
    calls: list[Call] = field(default_factory=list)
    exhausted: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    clock: FakeClock | None = None

    @classmethod
    def of(cls, *replies: Response | Script | Exception) -> ScriptedTransport:
        return cls(deque(replies))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        reply = await self._next(Call(method, path, dict(query), headers, body))
        assert isinstance(reply, Response), f"{method} {path} met the script of a stream"
        return reply

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
        reply = await self._next(Call(method, path, dict(query), headers, body))
        if isinstance(reply, Response):
            reply = Script([reply.body], status=reply.status)
        yield Stream(reply.status, {}, self._play(reply))

    async def close(self) -> None:
        self.closed = True

    async def _next(self, call: Call) -> Response | Script:
        self.calls.append(call)
        # Callers that start together ask together, as they would over a network.
        await asyncio.sleep(0)
        if not self.replies:
            self.exhausted.set()
            await asyncio.Event().wait()
        reply = self.replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _play(self, script: Script) -> AsyncIterator[bytes]:
        for chunk in script.chunks:
            yield chunk
        if self.clock is not None:
            self.clock.elapsed += script.lasts
        if script.hangs:
            await asyncio.Event().wait()
        if script.error is not None:
            raise script.error


class FakeClock:
    """A clock that jumps where others wait, and remembers how far."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []
        self.elapsed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.elapsed += seconds
        await asyncio.sleep(0)


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    """Build a JSON answer; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, msgspec.json.encode(body))


def failure(code: int, reason: str, message: str = "no", **headers: str) -> Response:
    """Build the answer of a refusal with a Status."""
    return answer(status_object(code, reason, message), code, **headers)


def status_object(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def event(type: str, obj: dict[str, Any]) -> bytes:
    """Build one line of a watch."""
    return msgspec.json.encode({"type": type, "object": obj}) + b"\n"


def pod(name: str, version: int | str, *, uid: str = "", **metadata: Any) -> dict[str, Any]:
    """Build a pod in namespace `ns`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
    }


def listing(version: int | str, *items: dict[str, Any], token: str = "") -> Response:
    """Build a list as built-in kinds have it: its items lack apiVersion and kind."""
    bare = [{k: v for k, v in item.items() if k not in ("apiVersion", "kind")} for item in items]
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return answer({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": bare})
