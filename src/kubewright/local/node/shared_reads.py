"""Reads that pods share which ask for the same object at the same time."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client

_Key: TypeAlias = tuple[Resource, str | None, str]


class _AbandonedError(Exception):
    """Who was to read was cancelled; somebody else must."""


class SharedReads:
    """Reads objects as fresh as a request of one's own, with fewer requests.

    Guarantee: the request whose answer is returned was sent after `get` was called. Whoever asks
    while one is on its way waits for the next one, which serves all who came meanwhile. A hundred
    pods of a namespace, each of which needs the same root certificates, cost a few requests.
    Answers are shared: nobody may change them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next: dict[_Key, asyncio.Future[Object]] = {}
        self._sending: dict[_Key, asyncio.Lock] = {}

    async def get(self, resource: Resource, name: str, *, namespace: str | None) -> Object:
        """Read an object.

        Raises:
            NotFound: it does not exist.
        """
        key = (resource, namespace, name)
        while (pending := self._next.get(key)) is not None:
            try:
                return await asyncio.shield(pending)
            except _AbandonedError:
                continue
        return await self._lead(key)

    async def _lead(self, key: _Key) -> Object:
        """Read for all who ask before the request is sent."""
        resource, namespace, name = key
        pending = self._next[key] = asyncio.get_running_loop().create_future()
        lock = self._sending.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                del self._next[key]
                found = await self._client.get(resource, name, namespace=namespace)
        except BaseException as error:
            if self._next.get(key) is pending:
                del self._next[key]
            pending.set_exception(error if isinstance(error, Exception) else _AbandonedError())
            # Nobody may have waited for it.
            pending.exception()
            raise
        finally:
            if key not in self._next and not lock.locked():
                self._sending.pop(key, None)
        pending.set_result(found)
        return found
