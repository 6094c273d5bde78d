"""A command in a running container with its standard streams: pipes, or a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Awaitable, Callable

from kubewright.local.node.process import Process

END_OF_TRANSMISSION = b"\x04"

Launch = Callable[[int, int, int], Awaitable[Process]]
"""Starts the command with descriptors for stdin, stdout and stderr, which stay the caller's."""


class ContainerCommand:
    """A running command. Use `open`, then `close`, which kills it where it still runs.

    `stdout` and `stderr` end when nobody has them open any more; with a terminal `stderr` is None.
    """

    def __init__(
        self,
        process: Process,
        stdin: asyncio.WriteTransport | None,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader | None,
        *,
        transports: list[asyncio.BaseTransport],
        drain: Callable[[], Awaitable[None]],
        terminal: int | None = None,
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._process = process
        self._stdin = stdin
        self._transports = transports
        self._drain = drain
        self._terminal = terminal

    @classmethod
    async def open(cls, launch: Launch, *, stdin: bool, tty: bool) -> ContainerCommand:
        """Start a command; without `stdin` it reads nothing.

        Raises:
            StartError: it cannot be started.
        """
        return await (_open_terminal(launch) if tty else _open_pipes(launch, stdin))

    async def write(self, data: bytes) -> None:
        """Write to the command's stdin; waits while it does not read. Dropped once it has ended."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)
            with contextlib.suppress(ConnectionError):
                await self._drain()

    async def close_stdin(self) -> None:
        """Tell the command that no more input comes."""
        if self._stdin is None:
            return
        if self._terminal is not None:
            await self.write(END_OF_TRANSMISSION)
        else:
            self._stdin.close()

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        if self._terminal is not None:
            set_terminal_size(self._terminal, width, height)

    async def wait(self) -> int:
        """Wait for the end; return the exit code, for a killed command 128 plus the signal."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """Kill the command, if it still runs."""
        self._process.kill()

    async def close(self) -> None:
        """Kill the command, if it still runs, and let go of its streams."""
        self._process.kill()
        for transport in self._transports:
            transport.close()
        await self._process.wait()


def set_terminal_size(terminal: int, width: int, height: int) -> None:
    """Set the size of a terminal in characters; its processes get SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


async def _open_pipes(launch: Launch, stdin: bool) -> ContainerCommand:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for is_input in (True, False, False):
            reader, writer = os.pipe()
            ours.append(writer if is_input else reader)
            theirs.append(reader if is_input else writer)
        process = await launch(theirs[0], theirs[1], theirs[2])
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    writing, drain = await connect_writer(ours[0])
    stdout, out = await _connect_reader(ours[1])
    stderr, err = await _connect_reader(ours[2])
    if not stdin:
        writing.close()
    return ContainerCommand(
        process,
        writing if stdin else None,
        stdout,
        stderr,
        transports=[writing, out, err],
        drain=drain,
    )


async def _open_terminal(launch: Launch) -> ContainerCommand:
    ours, theirs = os.openpty()
    try:
        process = await launch(theirs, theirs, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    writing, drain = await connect_writer(os.dup(ours))
    stdout, out = await _connect_reader(ours)
    return ContainerCommand(
        process, writing, stdout, None, transports=[writing, out], drain=drain, terminal=ours
    )


async def _connect_reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", buffering=0)
    )
    return stream, transport


async def connect_writer(
    descriptor: int,
) -> tuple[asyncio.WriteTransport, Callable[[], Awaitable[None]]]:
    """Return a transport that writes to a descriptor, and what waits until it may go on."""
    loop = asyncio.get_running_loop()
    # The protocol of a StreamReader is the one that knows when a writer may go on.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(descriptor, "wb", buffering=0),
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    return transport, writer.drain
