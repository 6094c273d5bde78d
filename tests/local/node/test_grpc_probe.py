from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.local.node.connecting import connect

from kubewright.local.node.grpc_probe import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    probe_grpc,
)
from kubewright.local.node.hpack import encode_headers
from kubewright.local.node.runtime import Outcome, ProbeResult

OK = encode_headers([("grpc-status", "0")])
NOT_IMPLEMENTED = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
HEAD = encode_headers([(":status", "200"), ("content-type", "application/grpc")])


def frame(kind: int, flags: int, payload: bytes = b"", stream: int = 1) -> bytes:
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


def message(status: int) -> bytes:
    field = bytes([0x08, status]) if status else b""
    return b"\0" + struct.pack(">I", len(field)) + field


def answer(status: int) -> bytes:
    """Build the frames that tell of a service's status."""
    return (
        frame(HEADERS, END_HEADERS, HEAD)
        + frame(DATA, 0, message(status))
        + frame(HEADERS, END_HEADERS | END_STREAM, OK)
    )


def refusal(code: int, text: str) -> bytes:
    """Build the frame of a call that failed: headers and trailers in one."""
    fields = [(":status", "200"), ("grpc-status", str(code)), ("grpc-message", text)]
    return frame(HEADERS, END_HEADERS | END_STREAM, encode_headers(fields))


@asynccontextmanager
async def serving(frames: bytes, requests: list[bytes]) -> AsyncIterator[int]:
    """Serve the same frames to each call; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        writer.write(frame(SETTINGS, 0, stream=0))
        serves.append(asyncio.current_task())
        while head := await reader.read(9):
            payload = await reader.readexactly(int.from_bytes(head[:3]))
            requests.append(payload)
            if head[3] == DATA:
                writer.write(frames)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    serves: list[asyncio.Task[None] | None] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*filter(None, serves))


async def probe(frames: bytes, service: str = "", timeout: float = 5.0) -> ProbeResult:
    async with serving(frames, []) as port:
        return await probe_grpc("127.0.0.1", port, service, timeout, connect)


@pytest.mark.parametrize(
    ("frames", "output"),
    [
        (answer(1), "service healthy"),
        (answer(2), 'service unhealthy (responded with "NOT_SERVING")'),
        (answer(0), 'service unhealthy (responded with "UNKNOWN")'),
        (refusal(12, "unknown service"), f"error: {NOT_IMPLEMENTED}: unknown service"),
        (
            refusal(5, "unknown%20service"),
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
        ),
    ],
)
async def test_answers_are_worded_as_the_kubelet_words_them(frames: bytes, output: str) -> None:
    result = await probe(frames)
    expected = Outcome.SUCCESS if output == "service healthy" else Outcome.FAILURE
    assert (result.outcome, result.output) == (expected, output)


async def test_frames_may_be_padded_and_headers_continued() -> None:
    padded = bytes([3]) + message(1) + b"\0\0\0"
    frames = (
        frame(HEADERS, 0, HEAD[:4])
        + frame(CONTINUATION, END_HEADERS, HEAD[4:])
        + frame(DATA, PADDED, padded)
        + frame(HEADERS, END_HEADERS | END_STREAM, OK)
    )
    assert (await probe(frames)).outcome is Outcome.SUCCESS


async def test_the_service_is_named_in_the_call() -> None:
    requests: list[bytes] = []
    async with serving(answer(1), requests) as port:
        await probe_grpc("127.0.0.1", port, "db", 5.0, connect)
    headers, body = filter(None, requests)
    assert b"/grpc.health.v1.Health/Check" in headers
    assert body == b"\0\0\0\0\x04\x0a\x02db"


async def test_server_that_does_not_answer_in_time_fails() -> None:
    result = await probe(b"", timeout=0.2)
    assert result.output == "timeout: health rpc did not complete within 0.2s"


async def test_connection_is_tried_until_there_is_no_more_time() -> None:
    async with serving(b"", []) as port:
        pass
    result = await probe_grpc("127.0.0.1", port, "", 0.3, connect)
    assert result.output == (
        f'timeout: failed to connect service "127.0.0.1:{port}" within 0.3s: '
        "context deadline exceeded"
    )
