"""Keys that something outside the API server names: a message queue, a cloud, a database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from random import Random
from typing import TypeAlias

import msgspec

from kubewright.api.resource import NamespacedName
from kubewright.cache.backoff import Backoff
from kubewright.client.clock import Clock
from kubewright.runtime.failure import describe, is_cancellation

OpenStream: TypeAlias = Callable[[], AsyncIterator[NamespacedName]]

_logger = logging.getLogger(__name__)


class EventStream(msgspec.Struct, frozen=True):
    """A stream of the keys to reconcile, opened for as long as the controller runs.

    `open` is usually an async generator function. When the stream fails or ends, it is opened again
    after 0.8 s doubling to 30 s, and all objects are reconciled: what it would have told meanwhile
    is not known. As with every trigger, only the key counts; the reconcile reads the state itself.
    """

    name: str
    open: OpenStream


async def follow_stream(
    stream: EventStream,
    add: Callable[[NamespacedName], None],
    *,
    lost: Callable[[], None],
    clock: Clock,
    random: Random,
) -> None:
    """Hand every key of a stream to `add`, for ever; call `lost` each time it is opened again."""
    backoff = Backoff(random)
    while True:
        try:
            await _read(stream, add, backoff)
            reason = "it ended"
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            if is_cancellation(error):
                raise
            reason = describe(error)
        delay = backoff.next(clock.monotonic())
        _logger.warning("%s: opened again in %.1f s: %s", stream.name, delay, reason)
        await clock.sleep(delay)
        lost()


async def _read(
    stream: EventStream, add: Callable[[NamespacedName], None], backoff: Backoff
) -> None:
    keys = stream.open()
    if isinstance(keys, AsyncGenerator):
        async with aclosing(keys):
            await _pass_on(keys, add, backoff)
    else:
        await _pass_on(keys, add, backoff)


async def _pass_on(
    keys: AsyncIterator[NamespacedName], add: Callable[[NamespacedName], None], backoff: Backoff
) -> None:
    async for key in keys:
        if not isinstance(key, NamespacedName):
            raise TypeError(f"the stream yields {key!r}: yield a NamespacedName(namespace, name)")
        backoff.reset()
        add(key)
