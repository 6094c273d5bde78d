"""Frames of SPDY/3.1, as much as port forwarding needs of it. Pure.

Source: SPDY Protocol, Draft 3.1. Streams are opened by the other side only; flow control, settings
and priorities are skipped, as the client's library skips them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import msgspec

from kubewright.api.errors import KubewrightError

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 0x01
REFUSED_STREAM = 3
MAX_FRAME = 1 << 22
MAX_HEADERS = 1 << 16
_CONTROL = 0x8000
_VERSION = 3
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive")
_TAIL = (
    "origin100101201202205206300302303304305306307402405406407408409410411412413414415416417502"
    "504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(w)) + w.encode() for w in (*_WORDS.split(" "), *_MORE_WORDS))
    + struct.pack(">I", len("origin"))
    + _TAIL.encode()
)
"""What header compression begins with: a constant of the protocol, 1423 bytes."""


class SpdyError(KubewrightError):
    """The other side does not speak SPDY/3.1."""


class OpenStream(msgspec.Struct, frozen=True):
    """SYN_STREAM: the other side opens a stream. Header names are lower-case."""

    stream: int
    headers: Mapping[str, str]
    finished: bool = False


class AcceptStream(msgspec.Struct, frozen=True):
    """SYN_REPLY: the stream is taken."""

    stream: int
    headers: Mapping[str, str] = {}


class StreamData(msgspec.Struct, frozen=True):
    """Data of a stream; `finished` says that this side sends no more on it."""

    stream: int
    data: bytes
    finished: bool = False


class ResetStream(msgspec.Struct, frozen=True):
    """RST_STREAM: the stream ends at once, in both directions."""

    stream: int
    status: int


class Ping(msgspec.Struct, frozen=True):
    """PING: to be sent back as it is."""

    number: int


class GoAway(msgspec.Struct, frozen=True):
    """GOAWAY: the other side opens no more streams."""

    last_stream: int
    status: int = 0


Frame = OpenStream | AcceptStream | StreamData | ResetStream | Ping | GoAway


class SpdyFramer:
    """Turns bytes into frames and back, for one connection: compression has a memory.

    `encode` must be called in the order in which frames are sent.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes in and return the frames that are complete.

        Raises:
            SpdyError: they are no SPDY/3.1, or a frame is too large.
        """
        self._buffer += data
        frames = []
        while len(self._buffer) >= 8:
            first, length = struct.unpack_from(">II", self._buffer)
            flags, size = length >> 24, length & 0xFFFFFF
            if size > MAX_FRAME:
                raise SpdyError(f"a frame of {size} bytes is too large")
            if len(self._buffer) < 8 + size:
                break
            payload = bytes(self._buffer[8 : 8 + size])
            del self._buffer[: 8 + size]
            frame = self._decode(first, flags, payload)
            if frame is not None:
                frames.append(frame)
        return frames

    def _decode(self, first: int, flags: int, payload: bytes) -> Frame | None:
        finished = bool(flags & FIN)
        if not first >> 31:
            return StreamData(first, payload, finished)
        if first >> 16 != _CONTROL | _VERSION:
            raise SpdyError(f"version {first >> 16 & 0x7FFF} of SPDY is not spoken")
        try:
            match first & 0xFFFF:
                case 1:
                    (stream,) = struct.unpack_from(">I", payload)
                    return OpenStream(stream, self._decode_headers(payload[10:]), finished)
                case 2:
                    (stream,) = struct.unpack_from(">I", payload)
                    return AcceptStream(stream, self._decode_headers(payload[4:]))
                case 3:
                    return ResetStream(*struct.unpack(">II", payload))
                case 6:
                    return Ping(*struct.unpack(">I", payload))
                case 7:
                    return GoAway(*struct.unpack(">II", payload))
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a control frame cannot be read: {error}") from error
        return None

    def _decode_headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block, MAX_HEADERS)
        if self._inflate.unconsumed_tail:
            raise SpdyError("the headers of a stream are too large")
        (count,) = struct.unpack_from(">I", data)
        texts: list[str] = []
        offset = 4
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", data, offset)
            offset += 4 + size
            texts.append(data[offset - size : offset].decode())
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}

    def encode(self, frame: Frame) -> bytes:
        """Return a frame's bytes."""
        match frame:
            case StreamData(stream, data, finished):
                length = (FIN if finished else 0) << 24 | len(data)
                return struct.pack(">II", stream, length) + data
            case OpenStream(stream, headers, finished):
                payload = struct.pack(">IIH", stream, 0, 0) + self._encode_headers(headers)
                return _control(SYN_STREAM, payload, FIN if finished else 0)
            case AcceptStream(stream, headers):
                payload = struct.pack(">I", stream) + self._encode_headers(headers)
                return _control(SYN_REPLY, payload)
            case ResetStream(stream, status):
                return _control(RST_STREAM, struct.pack(">II", stream, status))
            case Ping(number):
                return _control(PING, struct.pack(">I", number))
            case GoAway(stream, status):
                return _control(GOAWAY, struct.pack(">II", stream, status))

    def _encode_headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for pair in headers.items():
            for text in pair:
                parts += [struct.pack(">I", len(text.encode())), text.encode()]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    first = (_CONTROL | _VERSION) << 16 | kind
    return struct.pack(">II", first, flags << 24 | len(payload)) + payload
