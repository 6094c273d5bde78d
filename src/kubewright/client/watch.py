"""Watch streams: newline-delimited JSON events, whatever the borders of the chunks they come in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from kubewright.api.errors import APIError, TransportError
from kubewright.api.metadata import ObjectMeta
from kubewright.client.objects import RawObject, decode_raw_object

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events (KEP-3157)."""


class MalformedEvent(TransportError):
    """A watch sent what is no event: asking for the same again may bring the same again."""


class WatchEvent(NamedTuple):
    """A change, or a BOOKMARK that only says how far the watch has come.

    `error` says why the metadata of the object could not be decoded; `meta` then holds only what
    could be saved of its identity.
    """

    type: str
    meta: ObjectMeta
    raw: bytes
    error: str | None = None

    @property
    def object(self) -> RawObject:
        """The object that changed, or was deleted, in the state that the server sent."""
        return RawObject(self.meta, self.raw, self.error)

    @property
    def is_initial_end(self) -> bool:
        """Tell whether this is the bookmark after the last initial event."""
        annotations = self.meta.annotations or {}
        return self.type == "BOOKMARK" and annotations.get(INITIAL_EVENTS_END) == "true"


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_status = msgspec.json.Decoder(dict[str, Any]).decode


def decode_event(line: bytes) -> WatchEvent:
    """Decode one event.

    Raises:
        APIError: the event is an ERROR; the class follows its Status.
        MalformedEvent: the line is not an event.
    """
    try:
        frame = _decode_frame(line)
        raw = bytes(frame.object)
        if frame.type == "ERROR":
            raise APIError.from_status(_decode_status(raw))
        return WatchEvent(frame.type, *decode_raw_object(raw))
    except msgspec.DecodeError as error:
        raise MalformedEvent(f"the watch sent what is no event: {error}: {line[:200]!r}") from error


class EventReader:
    """Iterate over the events of a stream.

    It ends where the server closed the stream properly, which every server does now and then. An
    event may be of any size.

    Raises:
        APIError: the server sent an ERROR event.
        TransportError: the stream broke off, or `deadline` (in the loop's time) passed: the server
            must have closed it before, so the connection is dead.
    """

    def __init__(self, chunks: AsyncIterator[bytes], *, deadline: float | None = None) -> None:
        self._chunks = chunks
        self._deadline = deadline
        self._lines: deque[bytes] = deque()
        self._tail: list[bytes] = []

    def __aiter__(self) -> EventReader:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._lines:
            chunk = await self._next_chunk()
            if chunk is None:
                raise StopAsyncIteration
            self._feed(chunk)
        return decode_event(self._lines.popleft())

    async def _next_chunk(self) -> bytes | None:
        """Read on; at the end hand out the rest as a last line, then None."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(self._chunks)
        except TimeoutError as error:
            raise TransportError("the watch outlived its timeout: it is dead") from error
        except StopAsyncIteration:
            return b"\n" if self._tail else None

    def _feed(self, chunk: bytes) -> None:
        # The unfinished line stays a list of pieces: joining at each chunk would cost quadratic
        # time on a large object.
        first, *others = chunk.split(b"\n")
        self._tail.append(first)
        if not others:
            return
        lines = [b"".join(self._tail), *others]
        rest = lines.pop()
        self._tail = [rest] if rest else []
        self._lines.extend(line for line in lines if line and not line.isspace())
