from __future__ import annotations

import asyncio

from kubewright.client.http_connection import BUFFER_LIMIT, HTTPConnection


class Socket(asyncio.Transport):
    """A transport that notes whether it may read."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def is_paused(socket: Socket) -> bool:
    return socket.paused


def open_connection() -> tuple[HTTPConnection, Socket]:
    connection, socket = HTTPConnection(), Socket()
    connection.connection_made(socket)
    connection.send(b"GET / HTTP/1.1\r\n\r\n")
    return connection, socket


def feed(connection: HTTPConnection, size: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BUFFER_LIMIT * 3)
    connection.data_received(head + b"x" * size)


async def test_a_large_answer_that_came_before_its_reader_is_read_on() -> None:
    connection, socket = open_connection()
    feed(connection, BUFFER_LIMIT + 1)
    assert is_paused(socket)
    reading = asyncio.create_task(connection.read_body())
    await asyncio.sleep(0)
    assert not is_paused(socket)
    connection.data_received(b"x" * (BUFFER_LIMIT * 2 - 1))
    assert len(await reading) == BUFFER_LIMIT * 3
    assert connection.is_reusable


async def test_a_stream_that_nobody_reads_stops_the_server_until_somebody_does() -> None:
    connection, socket = open_connection()
    feed(connection, BUFFER_LIMIT + 1)
    chunks = connection.chunks()
    assert len(await anext(chunks)) == BUFFER_LIMIT + 1
    following = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    assert not is_paused(socket)
    connection.data_received(b"y")
    assert await following == b"y"
