"""gRPC probes: one call of grpc.health.v1.Health/Check over plain HTTP/2, as the kubelet asks."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from urllib.parse import unquote

import msgspec

from kubewright.local.node.hpack import HeaderDecoder, HeaderError, encode_headers
from kubewright.local.node.probe_handlers import Connect
from kubewright.local.node.runtime import Outcome, ProbeResult

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH = "/grpc.health.v1.Health/Check"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
STREAM = 1
MAX_FRAME = 1 << 14
RETRY_SECONDS = 0.1
CODES = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)
SERVING = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
BY_HTTP_STATUS = {
    "400": "Internal",
    "401": "Unauthenticated",
    "403": "PermissionDenied",
    "404": "Unimplemented",
    "429": "Unavailable",
    "502": "Unavailable",
    "503": "Unavailable",
    "504": "Unavailable",
}


class Connection:
    """An HTTP/2 connection with one call on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = HeaderDecoder()
        self.headers: dict[str, str] = {}
        self.body = b""

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        """Send a frame."""
        head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
        self._writer.write(head + struct.pack(">I", stream) + payload)

    async def receive(self) -> tuple[int, int, int, bytes]:
        """Receive a frame: its kind, flags, stream and payload. Answers what must be answered.

        Raises:
            EOFError: the connection has closed.
            HeaderError: that is no HTTP/2.
        """
        head = await self._reader.readexactly(9)
        size = int.from_bytes(head[:3])
        if size > MAX_FRAME:
            raise HeaderError("a frame is larger than was allowed")
        payload = await self._reader.readexactly(size)
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF
        if kind == SETTINGS and not flags & ACK:
            self.send(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.send(PING, ACK, 0, payload)
        return kind, flags, stream, payload

    async def greet(self) -> None:
        """Send the preface, and wait for the server's settings: then it is connected."""
        self._writer.write(PREFACE)
        self.send(SETTINGS, 0, 0)
        kind, _, _, _ = await self.receive()
        if kind != SETTINGS:
            raise HeaderError("the server does not begin with its settings")

    async def call(self, authority: str, service: str) -> None:
        """Make the call and read the answer to its end.

        Raises:
            EOFError: the connection has closed.
            HeaderError: the answer is malformed.
        """
        name = service.encode()
        message = (b"\x0a" + bytes([len(name)]) + name) if name else b""
        self.send(HEADERS, END_HEADERS, STREAM, encode_headers(build_headers(authority)))
        self.send(DATA, END_STREAM, STREAM, b"\0" + struct.pack(">I", len(message)) + message)
        while True:
            kind, flags, stream, payload = await self.receive()
            if kind == GOAWAY or (kind == RST_STREAM and stream == STREAM):
                raise EOFError
            if stream != STREAM:
                continue
            if kind == DATA:
                self.body += unpad(payload, flags)
            elif kind == HEADERS:
                self.headers |= dict(await self._read_headers(payload, flags))
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return

    async def _read_headers(self, payload: bytes, flags: int) -> list[tuple[str, str]]:
        block = unpad(payload, flags)
        block = block[5:] if flags & PRIORITY else block
        while not flags & END_HEADERS:
            kind, flags, _, more = await self.receive()
            if kind != CONTINUATION:
                raise HeaderError("a block of headers is not continued")
            block += more
        return self._decoder.decode(block)

    async def close(self) -> None:
        """Close the connection."""
        await close(self._writer)


class Answer(msgspec.Struct, frozen=True):
    """What a call came to: the code by its name, its message, and the status of the service."""

    code: str
    message: str = ""
    serving: str = ""


def build_headers(authority: str) -> list[tuple[str, str]]:
    """Build the headers of the call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", PATH),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("user-agent", "kube-probe/1.37"),
        ("te", "trailers"),
    ]


def unpad(payload: bytes, flags: int) -> bytes:
    """Return what a frame carries without its padding."""
    if not flags & PADDED or not payload:
        return payload
    return payload[1 : len(payload) - payload[0]]


async def probe_grpc(
    address: str, port: int, service: str, timeout: float, connect: Connect
) -> ProbeResult:
    """Ask a server for its health, or that of one of its services; SERVING is success."""
    authority = f"{address}:{port}"
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout):
            connection = await _open(address, port, connect)
            try:
                await connection.call(authority, service)
                answer = read_answer(connection.headers, connection.body)
            except (EOFError, OSError, HeaderError):
                reason = "error reading from server: EOF"
                answer = Answer("Unavailable", reason)
    except TimeoutError:
        if connection is None:
            note = f'failed to connect service "{authority}" within {timeout:g}s'
            return ProbeResult(Outcome.FAILURE, f"timeout: {note}: context deadline exceeded")
        note = f"timeout: health rpc did not complete within {timeout:g}s"
        return ProbeResult(Outcome.FAILURE, note)
    finally:
        if connection is not None:
            await connection.close()
    return describe(answer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, whatever has become of it."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _open(address: str, port: int, connect: Connect) -> Connection:
    """Connect; what fails is tried again, as gRPC does until there is no more time."""
    while True:
        writer = None
        try:
            made = await connect(address, port)
            reader, writer = await asyncio.open_connection(sock=made)
            connection = Connection(reader, writer)
            await connection.greet()
        except (OSError, EOFError, HeaderError):
            if writer is not None:
                await close(writer)
            await asyncio.sleep(RETRY_SECONDS)
        except BaseException:
            if writer is not None:
                writer.close()
            raise
        else:
            return connection


def read_answer(headers: dict[str, str], body: bytes) -> Answer:
    """Read what the server said: its trailers, and the message if there is one."""
    if "grpc-status" not in headers:
        status = headers.get(":status", "")
        text = f"unexpected HTTP status code received from server: {status}"
        return Answer(BY_HTTP_STATUS.get(status, "Unknown"), text)
    number = headers["grpc-status"]
    code = CODES[int(number)] if number.isdigit() and int(number) < len(CODES) else "Unknown"
    message = unquote(headers.get("grpc-message", ""))
    if code != "OK":
        return Answer(code, message)
    # A message of five bytes before it, and in it a field: the number 1, a varint.
    told = body[6] if len(body) > 6 and body[5] == 0x08 else 0
    return Answer(code, message, SERVING[told] if told < len(SERVING) else str(told))


def describe(answer: Answer) -> ProbeResult:
    """Word the result as the kubelet does."""
    if answer.code == "Unimplemented":
        what = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return ProbeResult(Outcome.FAILURE, f"error: {what}: {answer.message}")
    if answer.code != "OK":
        error = f"rpc error: code = {answer.code} desc = {answer.message}"
        return ProbeResult(Outcome.FAILURE, f"error: health rpc probe failed: {error}")
    if answer.serving != "SERVING":
        note = f'service unhealthy (responded with "{answer.serving}")'
        return ProbeResult(Outcome.FAILURE, note)
    return ProbeResult(Outcome.SUCCESS, "service healthy")
