"""One client of a command, or of a container that it is attached to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from kubewright.api.resource import Object
from kubewright.local.node.container_streams import OutputStream, Streams
from kubewright.local.node.exec_channels import (
    Channel,
    StreamOptions,
    build_exit_status,
    build_failure,
    parse_size,
)
from kubewright.local.node.runtime import StartError

PART = 1 << 15


class Channels(Protocol):
    """The client's streams."""

    def receive(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield what the client sends, until it goes away."""
        ...

    async def send(self, channel: Channel, payload: bytes) -> None:
        """Send to the client. To one that is gone nothing is to be said."""
        ...

    async def end(self, status: Object) -> None:
        """Tell how it ended, and close."""
        ...


class ExecSession:
    """Carries streams between a client and what it asked for.

    The client learns the end from a Status on the error channel. When it goes away first, a command
    is killed; a container goes on without it.
    """

    def __init__(self, channels: Channels, options: StreamOptions) -> None:
        self._channels = channels
        self._options = options

    async def run(self, open_streams: Callable[[], Awaitable[Streams]], failure: str) -> None:
        """Open the streams and carry them to their end.

        Args:
            open_streams: Starts the command, or attaches to the container. Raises StartError.
            failure: What to tell the client before the text of that error.
        """
        try:
            streams = await open_streams()
        except StartError as error:
            await self._channels.end(build_failure(f"{failure}: {error}"))
            return
        try:
            await self._channels.end(build_exit_status(await self._carry(streams)))
        finally:
            await streams.close()

    async def _carry(self, streams: Streams) -> int:
        receiving = asyncio.create_task(self._receive(streams))
        outputs = asyncio.create_task(self._send_outputs(streams))
        try:
            # A client that went away leaves a container's outputs open: they end nothing.
            await asyncio.wait({receiving, outputs}, return_when=asyncio.FIRST_COMPLETED)
            if outputs.done():
                outputs.result()
            return await streams.wait()
        finally:
            for task in (receiving, outputs):
                task.cancel()
            await asyncio.gather(receiving, outputs, return_exceptions=True)

    async def _send_outputs(self, streams: Streams) -> None:
        options = self._options
        async with asyncio.TaskGroup() as group:
            for output, channel, wanted in (
                (streams.stdout, Channel.STDOUT, options.stdout),
                (streams.stderr, Channel.STDERR, options.stderr),
            ):
                if output is not None:
                    group.create_task(self._send_output(output, channel, wanted=wanted))

    async def _send_output(self, output: OutputStream, channel: Channel, *, wanted: bool) -> None:
        # A terminal whose other side is closed ends with EIO rather than with an empty read.
        with contextlib.suppress(OSError):
            while part := await output.read(PART):
                if wanted:
                    await self._channels.send(channel, part)

    async def _receive(self, streams: Streams) -> None:
        try:
            async for channel, payload in self._channels.receive():
                await _take(streams, channel, payload)
        finally:
            streams.kill()


async def _take(streams: Streams, channel: Channel, payload: bytes) -> None:
    match channel:
        case Channel.STDIN:
            await streams.write(payload)
        case Channel.RESIZE:
            if (size := parse_size(payload)) is not None:
                streams.resize(*size)
        case Channel.CLOSE if payload == bytes([Channel.STDIN]):
            await streams.close_stdin()
