"""A client for tests of the API server in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubewright.local.apiserver import ADMIN, RunningServer, User
from kubewright.local.apiserver.exchange import (
    Answer,
    Request,
    Response,
    StreamResponse,
    parse_query,
)


@dataclass
class Reply:
    """An answer as a test looks at it."""

    status: int
    body: Any
    content_type: str
    headers: list[tuple[str, str]]

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "Warning"]


class Caller:
    """Sends requests to a server of this process."""

    def __init__(self, running: RunningServer) -> None:
        self.running = running

    async def answer(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        user: User | None = ADMIN,
        **headers: str,
    ) -> Answer:
        path, _, query = target.partition("?")
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(
            method,
            path,
            query=parse_query(query),
            headers={name.replace("_", "-"): [value] for name, value in headers.items()},
            body=data,
        )
        return await self.running.server.handle(request, user)

    async def __call__(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        user: User | None = ADMIN,
        **headers: str,
    ) -> Reply:
        answer = await self.answer(method, target, body, user=user, **headers)
        assert isinstance(answer, Response)
        is_json = answer.content_type.startswith("application/json") and answer.body
        content: Any = json.loads(answer.body) if is_json else answer.body.decode()
        return Reply(answer.status, content, answer.content_type, answer.headers)

    async def events(self, target: str, count: int) -> list[Any]:
        """Read so many events of a watch; fewer where it ends before."""
        return await self.read(await self.answer("GET", target), count)

    async def read(
        self, answer: Answer, count: int, until: Callable[[Any], bool] = lambda event: False
    ) -> list[Any]:
        """Read so many events of an open watch; fewer where it ends, or `until` holds, before."""
        assert isinstance(answer, StreamResponse), answer
        events: list[Any] = []
        buffer = b""
        stream = answer.chunks
        try:
            async for chunk in stream:
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                events += [json.loads(line) for line in lines if line]
                if len(events) >= count or any(map(until, events)):
                    break
        finally:
            await stream.aclose()  # type: ignore[attr-defined]  # watches are async generators
        return events[:count]

    async def config_map(self, name: str, **fields: Any) -> Any:
        """Create a ConfigMap in the default namespace."""
        metadata = {"name": name, **fields.pop("metadata", {})}
        reply = await self("POST", CONFIG_MAPS, {"metadata": metadata, **fields})
        assert reply.status == 201, reply.body
        return reply.body


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
