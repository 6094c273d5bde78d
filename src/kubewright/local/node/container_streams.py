"""The standard streams of a container's own process: its log, and whoever is attached to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import Protocol

from kubewright.local.node.container_command import connect_writer, set_terminal_size
from kubewright.local.node.logs import LogWriter

QUEUED = 16
"""Parts of output that wait for a client; then the container waits too, as under containerd."""


class OutputStream(Protocol):
    """Something that is read to its end."""

    async def read(self, n: int, /) -> bytes:
        """Return at most `n` bytes that are there; nothing at the end."""
        ...


class Streams(Protocol):
    """What a session carries: the streams of a command, or of a container."""

    @property
    def stdout(self) -> OutputStream:
        """The output, or all of a terminal."""
        ...

    @property
    def stderr(self) -> OutputStream | None:
        """The other output; None where it cannot be told apart."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to stdin; waits while it is not read."""
        ...

    async def close_stdin(self) -> None:
        """Tell that no more input comes."""
        ...

    def resize(self, width: int, height: int) -> None:
        """Set the size of a terminal in characters."""
        ...

    async def wait(self) -> int:
        """Wait for the end; return the exit code that the client is to be told."""
        ...

    def kill(self) -> None:
        """End what the client leaves behind."""
        ...

    async def close(self) -> None:
        """Let go of the streams."""
        ...


class Attachment:
    """A client that sees what a container writes from now on, and may write to its stdin."""

    def __init__(self, container: ContainerStreams, *, stdin: bool, has_stderr: bool) -> None:
        self.stdout = _Output()
        self.stderr = _Output() if has_stderr else None
        self._container = container
        self._stdin = stdin

    async def offer(self, stream: str, part: bytes) -> None:
        """Show a part of an output; waits while the client does not read."""
        output = self.stderr if stream == "stderr" else self.stdout
        if output is not None:
            await output.put(part)

    def end(self) -> None:
        """Tell the client that the container has ended."""
        for output in filter(None, (self.stdout, self.stderr)):
            output.end()

    async def write(self, data: bytes) -> None:
        """Write to the container's stdin, if it has one."""
        if self._stdin:
            await self._container.write(data)

    async def close_stdin(self) -> None:
        """Tell that this client writes no more: of a pod with `stdinOnce` nobody does."""
        if self._stdin:
            self._container.end_input()

    def resize(self, width: int, height: int) -> None:
        """Set the size of the container's terminal."""
        self._container.resize(width, height)

    async def wait(self) -> int:
        """Return 0: to attach has succeeded, however the container ended."""
        return 0

    def kill(self) -> None:
        """Leave the container alone: the client is gone, and holds nobody up."""
        self._container.detach(self)
        for output in filter(None, (self.stdout, self.stderr)):
            output.leave()

    async def close(self) -> None:
        """Detach."""
        await self.close_stdin()
        self.kill()


class _Output:
    """One output on its way to a client; whoever writes waits for room, or until it is left."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = asyncio.Semaphore(QUEUED)
        self._is_left = False

    async def put(self, part: bytes) -> None:
        await self._room.acquire()
        if self._is_left:
            self._room.release()
        else:
            self._parts.put_nowait(part)

    def end(self) -> None:
        self._parts.put_nowait(b"")

    def leave(self) -> None:
        self._is_left = True
        self._room.release()

    async def read(self, n: int, /) -> bytes:
        """Return the next part, which is never larger than what a log's line may be."""
        part = await self._parts.get()
        self._room.release()
        return part


class ContainerStreams:
    """Holds our ends of a container's streams.

    With `tty` all three are one terminal. Without `stdin` the process reads nothing.
    """

    def __init__(
        self, *, stdin: bool, stdin_once: bool, tty: bool, taken: Sequence[int] = ()
    ) -> None:
        """Make the streams of a new container; or take over those of a running one (`kept`)."""
        self._stdin_once = stdin_once
        self._attached: set[Attachment] = set()
        self._is_over = False
        self._terminal: int | None = None
        self._input: int | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._child: tuple[int, ...] = ()
        if taken:
            self._take(taken, stdin=stdin, tty=tty)
            return
        if tty:
            self._terminal, theirs = os.openpty()
            self._outputs = {"stdout": os.dup(self._terminal)}
            self._input = os.dup(self._terminal) if stdin else None
            self._child = (theirs, theirs, theirs)
            return
        source, self._input = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
        stdout, stderr = os.pipe(), os.pipe()
        self._outputs = {"stdout": stdout[0], "stderr": stderr[0]}
        self._child = (source, stdout[1], stderr[1])

    def _take(self, taken: Sequence[int], *, stdin: bool, tty: bool) -> None:
        if tty:
            self._terminal = taken[0]
            self._outputs = {"stdout": os.dup(self._terminal)}
            self._input = os.dup(self._terminal) if stdin else None
            return
        stdout, stderr, *rest = taken
        self._outputs = {"stdout": stdout, "stderr": stderr}
        self._input = rest[0] if rest else None

    @property
    def kept(self) -> list[int]:
        """The descriptors by which another agent can go on where this one ends.

        Not the stdin that ends with its first client: a copy elsewhere would keep it open.
        """
        if self._terminal is not None:
            return [self._terminal]
        inputs = [] if self._input is None or self._stdin_once else [self._input]
        return [*self._outputs.values(), *inputs]

    @property
    def child(self) -> tuple[int, int, int]:
        """The descriptors that the container's process is to have as stdin, stdout and stderr."""
        stdin, stdout, stderr = self._child
        return stdin, stdout, stderr

    def release_child(self) -> None:
        """Close the process's ends, of which it has copies."""
        for descriptor in set(self._child):
            os.close(descriptor)

    def abandon(self) -> None:
        """Close our ends, of a process that did not start."""
        for descriptor in (*self._outputs.values(), self._input, self._terminal):
            if descriptor is not None:
                os.close(descriptor)

    async def copy_to(self, log: LogWriter) -> None:
        """Write all output to the log, and to whoever is attached, until the container ends.

        Raises:
            ExceptionGroup: of OSErrors, where the log cannot be written.
        """
        if self._input is not None:
            self._writer, self._drain = await connect_writer(self._input)
        try:
            async with asyncio.TaskGroup() as group:
                for stream, descriptor in self._outputs.items():
                    group.create_task(log.copy(descriptor, stream, self._offer))
        finally:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        if self._writer is not None:
            self._writer.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        for client in self._attached:
            client.end()

    async def _offer(self, stream: str, part: bytes) -> None:
        for client in list(self._attached):
            await client.offer(stream, part)

    def attach(self, *, stdin: bool) -> Attachment:
        """Attach a client."""
        client = Attachment(self, stdin=stdin, has_stderr="stderr" in self._outputs)
        self._attached.add(client)
        if self._is_over:
            client.end()
        return client

    def detach(self, client: Attachment) -> None:
        """Forget a client."""
        self._attached.discard(client)

    async def write(self, data: bytes) -> None:
        """Write to the container's stdin, if it has one; waits while it is not read."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)
            with contextlib.suppress(ConnectionError):
                await self._drain()

    def end_input(self) -> None:
        """Close stdin after its first client, where the pod says `stdinOnce`."""
        if self._stdin_once and self._writer is not None:
            self._writer.close()

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        if self._terminal is not None:
            set_terminal_size(self._terminal, width, height)
