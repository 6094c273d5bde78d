"""One remote command: its streams as channels of a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json

from aiohttp import WSMsgType, web

from kubewright.api.resource import Object
from kubewright.local.node.container_command import ContainerCommand
from kubewright.local.node.exec_channels import (
    Channel,
    ExecOptions,
    build_exit_status,
    build_failure,
    parse_size,
)
from kubewright.local.node.runtime import PodRuntime, RunningContainer, StartError

PART = 1 << 15


class ExecSession:
    """Runs a command for a client that has connected.

    The client learns the end from a Status on the error channel. When it goes away first, the
    command is killed.
    """

    def __init__(self, socket: web.WebSocketResponse, options: ExecOptions) -> None:
        self._socket = socket
        self._options = options

    async def run(self, runtime: PodRuntime, container: RunningContainer) -> None:
        """Run the command to its end."""
        options = self._options
        try:
            command = await runtime.open_command(
                container, options.command, stdin=options.stdin, tty=options.tty
            )
        except StartError as error:
            await self._end(build_failure(f"error executing command in container: {error}"))
            return
        try:
            await self._end(build_exit_status(await self._carry(command)))
        finally:
            await command.close()

    async def _carry(self, command: ContainerCommand) -> int:
        receiving = asyncio.create_task(self._receive(command))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_output(command.stdout, Channel.STDOUT))
                if command.stderr is not None:
                    group.create_task(self._send_output(command.stderr, Channel.STDERR))
            return await command.wait()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _send_output(self, stream: asyncio.StreamReader, channel: Channel) -> None:
        wanted = self._options.stderr if channel is Channel.STDERR else self._options.stdout
        # A terminal whose other side is closed ends with EIO rather than with an empty read.
        with contextlib.suppress(OSError):
            while part := await stream.read(PART):
                if wanted:
                    await self._send(channel, part)

    async def _receive(self, command: ContainerCommand) -> None:
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    await self._take(command, message.data)
                elif message.type is WSMsgType.TEXT:
                    await self._take(command, message.data.encode())
        finally:
            command.kill()

    async def _take(self, command: ContainerCommand, message: bytes) -> None:
        channel, payload = message[:1], message[1:]
        if channel == bytes([Channel.STDIN]):
            await command.write(payload)
        elif channel == bytes([Channel.RESIZE]):
            if (size := parse_size(payload)) is not None:
                command.resize(*size)
        elif channel == bytes([Channel.CLOSE]) and payload == bytes([Channel.STDIN]):
            await command.close_stdin()

    async def _end(self, status: Object) -> None:
        await self._send(Channel.ERROR, json.dumps(status).encode())
        await self._socket.close()

    async def _send(self, channel: Channel, payload: bytes) -> None:
        # To a client that is gone nothing is to be said.
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(bytes([channel]) + payload)
