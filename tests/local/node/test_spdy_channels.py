from __future__ import annotations

import asyncio

import pytest

from kubewright.local.node import spdy_channels
from kubewright.local.node.exec_channels import (
    Channel,
    StreamOptions,
    build_exit_status,
    build_failure,
)
from kubewright.local.node.spdy import (
    AcceptStream,
    Frame,
    OpenStream,
    Ping,
    ResetStream,
    SpdyFramer,
    StreamData,
)
from kubewright.local.node.spdy_channels import PROTOCOLS, SpdyChannels
from kubewright.local.node.spdy_connection import SpdyConnection
from kubewright.local.node.stream_refused import StreamRefused
from kubewright.local.node.stream_server import choose_version

ALL = StreamOptions(stdin=True, stdout=True, stderr=True, tty=False)


class Client:
    """The other end of a connection in memory."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.is_closed = False
        self._ours = SpdyFramer()
        self._theirs = SpdyFramer()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, *frames: Frame) -> None:
        for frame in frames:
            self._incoming.put_nowait(self._ours.encode(frame))

    def leave(self) -> None:
        self._incoming.put_nowait(None)

    async def receive(self) -> bytes | None:
        return await self._incoming.get()

    async def send(self, data: bytes) -> None:
        if self.is_closed:
            raise ConnectionResetError
        self.sent += self._theirs.feed(data)

    async def close(self) -> None:
        self.is_closed = True


def stream(number: int, kind: str) -> OpenStream:
    return OpenStream(number, {"streamType": kind})


async def connect(
    options: StreamOptions = ALL, protocol: str = PROTOCOLS[0]
) -> tuple[Client, SpdyChannels]:
    """Connect a client that has opened all its streams."""
    client = Client()
    channels = SpdyChannels(SpdyConnection(client), protocol, options)
    client.say(stream(1, "error"), stream(3, "stdin"), stream(5, "stdout"), stream(7, "stderr"))
    assert await channels.open()
    client.sent.clear()
    return client, channels


async def test_waits_for_each_stream_that_was_asked_for() -> None:
    client = Client()
    channels = SpdyChannels(SpdyConnection(client), PROTOCOLS[0], ALL)
    opening = asyncio.create_task(channels.open())
    client.say(stream(1, "error"), stream(3, "stdin"), stream(5, "stdout"))
    await asyncio.sleep(0)
    assert not opening.done()

    client.say(stream(7, "stderr"))

    assert await opening
    assert client.sent == [AcceptStream(number) for number in (1, 3, 5, 7)]


async def test_a_client_that_leaves_before_its_streams_are_open_is_given_up() -> None:
    client = Client()
    channels = SpdyChannels(SpdyConnection(client), PROTOCOLS[0], ALL)
    client.say(stream(1, "error"))
    client.leave()

    assert not await channels.open()


async def test_a_client_that_opens_no_streams_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_channels, "CREATION_SECONDS", 0.01)

    assert not await SpdyChannels(SpdyConnection(Client()), PROTOCOLS[0], ALL).open()


async def test_input_that_came_before_the_last_stream_is_kept() -> None:
    client = Client()
    channels = SpdyChannels(SpdyConnection(client), PROTOCOLS[0], ALL)
    client.say(stream(1, "error"), stream(3, "stdin"), StreamData(3, b"early"))
    client.say(stream(5, "stdout"), stream(7, "stderr"), StreamData(3, b"late", finished=True))
    assert await channels.open()
    client.leave()

    assert [part async for part in channels.receive()] == [
        (Channel.STDIN, b"early"),
        (Channel.STDIN, b"late"),
        (Channel.CLOSE, b"\0"),
    ]


async def test_a_stream_that_nobody_knows_or_that_comes_twice_is_refused() -> None:
    client, channels = await connect()
    client.say(stream(9, "stdin"), stream(11, "sound"), Ping(1))
    client.leave()

    assert [part async for part in channels.receive()] == []
    assert client.sent == [ResetStream(9, 3), ResetStream(11, 3), Ping(1)]


async def test_the_end_is_a_status_and_closes_every_stream() -> None:
    client, channels = await connect()

    await channels.send(Channel.STDOUT, b"out")
    await channels.end(build_exit_status(3))

    assert client.is_closed
    assert client.sent[0] == StreamData(5, b"out")
    assert isinstance(client.sent[1], StreamData)
    assert b'"NonZeroExitCode"' in client.sent[1].data
    assert client.sent[2:] == [StreamData(n, b"", finished=True) for n in (1, 3, 5, 7)]


@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
async def test_older_versions_are_told_a_message_and_nothing_of_success(protocol: str) -> None:
    client, channels = await connect(protocol=protocol)
    await channels.end(build_failure("no such command"))
    told = [f for f in client.sent if isinstance(f, StreamData) and f.data]
    assert told == [StreamData(1, b"Internal error occurred: no such command")]

    client, channels = await connect(protocol=protocol)
    await channels.end(build_exit_status(0))
    assert not [f for f in client.sent if isinstance(f, StreamData) and f.data]


@pytest.mark.parametrize(("protocol", "has_size"), [(PROTOCOLS[1], True), (PROTOCOLS[2], False)])
async def test_a_terminal_has_a_size_from_the_third_version_on(
    protocol: str, has_size: bool
) -> None:
    client = Client()
    options = StreamOptions(stdin=False, stdout=True, stderr=False, tty=True)
    channels = SpdyChannels(SpdyConnection(client), protocol, options)
    client.say(stream(1, "error"), stream(3, "stdout"))
    opening = asyncio.create_task(channels.open())
    if has_size:
        await asyncio.sleep(0)
        assert not opening.done()
        client.say(stream(5, "resize"))

    assert await opening


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io"], "v4.channel.k8s.io"),
        (["v2.channel.k8s.io, channel.k8s.io"], "v2.channel.k8s.io"),
        ([], "channel.k8s.io"),
    ],
)
def test_speaks_the_first_version_that_both_know(offered: list[str], chosen: str) -> None:
    assert choose_version(offered, PROTOCOLS) == chosen


def test_a_client_of_other_versions_is_told_which_are_known() -> None:
    with pytest.raises(StreamRefused, match=r"supports \[v9\], server accepts \[v4\."):
        choose_version(["v9"], PROTOCOLS)
