"""A watch of a version that a webhook makes of the stored one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from kubewright.api.errors import APIError
from kubewright.local.apiserver.storage import ObjectStorage
from kubewright.local.apiserver.watching import MOST_BYTES, Encode, Event, Selection, Watcher
from kubewright.local.store import Item

# What waits its turn: a change, a collection to begin with, or a ready event: type and text.
_Pending = Event | Sequence[Item] | tuple[str, bytes]


class ConvertingWatcher(Watcher):
    """A watch whose events a webhook converts, in order, while its reader waits for them.

    An object that the webhook does not convert ends the watch with an ERROR event: to leave it out
    would hide a change.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        scope: str,
        selection: Selection,
        encode: Encode,
        form: object,
        *,
        limit: int = MOST_BYTES,
    ) -> None:
        super().__init__(storage, scope, selection, encode, form, limit=limit)
        self._pending: deque[_Pending] = deque()
        self._waiting = 0

    def offer(self, event: Event) -> None:
        """Queue a change that may concern this watch; a reader that is too slow is dropped."""
        if self.closed or not event.change.key.startswith(self.scope):
            return
        self._pending.append(event)
        self._waiting += len(event.change.version.value or b"")
        if self._waiting > self._limit:
            self.close()
        self._ready.set()

    def show_state(self, items: Sequence[Item]) -> None:
        """Queue the collection that the watch begins with."""
        self._pending.append(items)
        self._ready.set()

    def show(self, kind: str, raw: bytes) -> None:
        """Queue an event that no one else sees, behind all that waits."""
        if self._pending:
            self._pending.append((kind, raw))
        else:
            super().show(kind, raw)

    async def read(self, timeout: float) -> bytes:
        """Wait for frames and return all of them; empty after `timeout` seconds without any."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while not self._queue:
            while self._pending:
                await self._settle(self._pending[0])
            left = end - loop.time()
            if self._queue or self.closed or not await self._ready.wait(max(left, 0)):
                break
        return self._take()

    async def _settle(self, pending: _Pending) -> None:
        """Convert what comes next and queue its frames. It waits its turn while it is converted."""
        try:
            if isinstance(pending, Event):
                await pending.learn(self.storage, both=bool(self.selection))
                super().offer(pending)
                self._waiting -= len(pending.change.version.value or b"")
            elif isinstance(pending, tuple):
                super().show(*pending)
            else:
                await self._begin(pending)
            self._pending.popleft()
        except APIError as error:
            self._pending.clear()
            self.fail(error)

    async def _begin(self, items: Sequence[Item]) -> None:
        texts = await self.storage.texts(items)
        for item, raw in zip(items, texts, strict=True):
            if not self.selection or self.selection.matches(self.storage, item.key, raw):
                super().show("ADDED", raw)
