from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from kubewright.local.node.container_streams import ContainerStreams
from kubewright.local.node.logs import LogWriter


class Container:
    """Streams whose other ends are the test's."""

    def __init__(self, streams: ContainerStreams) -> None:
        self.streams = streams
        self.stdin, self.stdout, self.stderr = (os.dup(fd) for fd in streams.child)
        streams.release_child()

    def write(self, data: bytes) -> None:
        os.write(self.stdout, data)

    def complain(self, data: bytes) -> None:
        os.write(self.stderr, data)

    async def read(self) -> bytes:
        return await asyncio.to_thread(os.read, self.stdin, 100)

    def exit(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.close(descriptor)


@asynccontextmanager
async def running(
    tmp_path: Path, *, stdin: bool = True, stdin_once: bool = False, tty: bool = False
) -> AsyncIterator[Container]:
    """A container whose output is copied to a log until the block ends."""
    log = LogWriter(tmp_path / "log", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    container = Container(ContainerStreams(stdin=stdin, stdin_once=stdin_once, tty=tty))
    copying = asyncio.create_task(container.streams.copy_to(log))
    await asyncio.sleep(0.01)
    yield container
    container.exit()
    await copying
    log.close()


async def test_who_attaches_sees_what_comes_from_then_on(tmp_path: Path) -> None:
    async with running(tmp_path) as container:
        first = container.streams.attach(stdin=False)
        container.write(b"one\n")
        assert await first.stdout.read(100) == b"one\n"
        second = container.streams.attach(stdin=False)
        container.write(b"two\n")
        container.complain(b"bad\n")

        for client in (first, second):
            assert client.stderr is not None
            assert await client.stdout.read(100) == b"two\n"
            assert await client.stderr.read(100) == b"bad\n"
    assert await first.stdout.read(100) == b""
    assert len((tmp_path / "log").read_text().splitlines()) == 3


async def test_a_container_that_has_ended_shows_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as container:
        streams = container.streams

    assert await streams.attach(stdin=True).stdout.read(100) == b""


async def test_input_stays_open_after_a_client_unless_it_is_for_one(tmp_path: Path) -> None:
    async with running(tmp_path) as container:
        first = container.streams.attach(stdin=True)
        await first.write(b"one")
        assert await container.read() == b"one"
        await first.close()
        await container.streams.attach(stdin=True).write(b"two")
        assert await container.read() == b"two"

    async with running(tmp_path, stdin_once=True) as container:
        first = container.streams.attach(stdin=True)
        await first.write(b"one")
        await first.close()
        assert await container.read() == b"one"
        assert await container.read() == b""


async def test_who_attaches_without_input_ends_nobodys(tmp_path: Path) -> None:
    async with running(tmp_path, stdin_once=True) as container:
        await container.streams.attach(stdin=False).close()
        await container.streams.attach(stdin=True).write(b"still open")

        assert await container.read() == b"still open"


async def test_a_client_that_does_not_read_holds_the_container_up_until_it_leaves(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as container:
        client = container.streams.attach(stdin=False)
        writing = asyncio.create_task(asyncio.to_thread(container.write, b"x" * (1 << 20)))
        done, _ = await asyncio.wait({writing}, timeout=0.2)
        assert not done

        client.kill()

        await writing
    assert (tmp_path / "log").stat().st_size > 1 << 20


async def test_a_terminal_is_one_stream_and_reads_what_a_client_writes(tmp_path: Path) -> None:
    async with running(tmp_path, tty=True) as container:
        client = container.streams.attach(stdin=True)
        assert client.stderr is None
        client.resize(77, 33)
        assert os.get_terminal_size(container.stdout) == (77, 33)

        await client.write(b"hello\n")

        assert await container.read() == b"hello\n"
        assert await client.stdout.read(100) == b"hello\r\n"  # the echo
