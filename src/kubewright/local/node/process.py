"""A child process whose end the event loop hears of through a pidfd: no thread, no handler."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

Stream = int | None


class Process:
    """A child of this process. Its exit status is collected exactly once, by the event loop."""

    def __init__(self, pid: int, reap: Callable[[], int]) -> None:
        self.pid = pid
        self._reap = reap
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pidfd = -1
        if not pid:
            raise ProcessLookupError
        self._pidfd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._collect)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
    ) -> Self:
        """Start a program; the fork runs beside the event loop.

        Raises:
            OSError: there is no such program, or it cannot be executed.
        """
        popen = await asyncio.to_thread(
            subprocess.Popen,
            argv,
            pass_fds=tuple(pass_fds),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        return cls(popen.pid, popen.wait)

    def _collect(self) -> None:
        self._release()
        self._exited.set_result(self._reap())

    def _release(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    @property
    def is_running(self) -> bool:
        """Tell whether the process has not been seen to end."""
        return not self._exited.done()

    async def wait(self) -> int:
        """Wait for the end; return the exit status, or minus the number of the signal."""
        return await asyncio.shield(self._exited)

    def send(self, number: int) -> None:
        """Send a signal, if the process still runs."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill the process at once, if it still runs."""
        self.send(signal.SIGKILL)


class HeldProcess(Process):
    """A child of another process, which collects its exit status and is asked for it.

    `ended_at` is when it ended, in seconds since the epoch, once that is known.
    """

    def __init__(self, pid: int, ask: Callable[[], Awaitable[tuple[int, float | None]]]) -> None:
        """Watch a process, which may have ended and been collected by now; 0 says that it has."""
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None
        self.ended_at: float | None = None
        try:
            super().__init__(pid, lambda: 0)
        except ProcessLookupError:
            self._collect()

    def _collect(self) -> None:
        self._release()
        self._asking = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        status, self.ended_at = await self._ask()
        self._exited.set_result(status)


async def run(argv: Sequence[str], *, stdin: bytes = b"") -> tuple[int, str]:
    """Run a program to its end; return its exit status and what it wrote to either output."""
    reader, writer = os.pipe()
    input_reader, input_writer = os.pipe()
    try:
        # Inputs here are small: they fit a pipe's buffer, so that writing first cannot block.
        os.write(input_writer, stdin)
        os.close(input_writer)
        process = await Process.start(argv, stdin=input_reader, stdout=writer, stderr=writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(input_reader)
    output = await read_to_end(reader)
    return await process.wait(), output.decode(errors="replace")


async def read_to_end(descriptor: int, limit: int | None = None) -> bytes:
    """Read a pipe until it closes, keeping at most `limit` bytes; the descriptor is closed."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", buffering=0)
    )
    kept = bytearray()
    try:
        while part := await stream.read(1 << 16):
            kept += part if limit is None else part[: max(0, limit - len(kept))]
    finally:
        transport.close()
    return bytes(kept)
