"""Reading the headers of HTTP/2 (RFC 7541): what a client needs for the answers to a probe."""

from __future__ import annotations

from collections import deque
from functools import cache

UNVALUED = """
accept-language accept-ranges accept access-control-allow-origin age allow authorization
cache-control content-disposition content-encoding content-language content-length
content-location content-range content-type cookie date etag expect expires from host if-match
if-modified-since if-none-match if-range if-unmodified-since last-modified link location
max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server
set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate
"""
STATIC = (
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", str(status)) for status in (200, 204, 206, 304, 400, 404, 500)),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in UNVALUED.split()),
)
"""Appendix A: the headers that have numbers from 1 on."""

CODE_LENGTHS = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHF"
    "IBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX"
    "PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRS"
    "VVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWV"
)
"""Appendix B: the length of the code of each byte, A for 5 bits. The code is canonical: those of
one length follow each other in the order of the bytes, and shorter ones come before."""
SHORTEST, LONGEST = 5, 30
ENTRY_BYTES = 32
TABLE_BYTES = 4096


class HeaderError(ValueError):
    """A block of headers cannot be read."""


class HeaderDecoder:
    """Decodes the blocks of one connection, which build upon each other."""

    def __init__(self) -> None:
        self._recent: deque[tuple[str, str]] = deque()
        self._size = 0
        self._limit = TABLE_BYTES

    def decode(self, block: bytes) -> list[tuple[str, str]]:
        """Decode a block.

        Raises:
            HeaderError: it is malformed.
        """
        headers: list[tuple[str, str]] = []
        try:
            at = 0
            while at < len(block):
                at = self._decode_one(block, at, headers)
        except IndexError:
            raise HeaderError("a block of headers is cut short") from None
        return headers

    def _decode_one(self, block: bytes, at: int, headers: list[tuple[str, str]]) -> int:
        first = block[at]
        if first & 0x80:
            number, at = read_integer(block, at, 7)
            headers.append(self._find(number))
            return at
        if first & 0xE0 == 0x20:
            self._limit, at = read_integer(block, at, 5)
            self._evict(0)
            return at
        is_kept = bool(first & 0x40)
        number, at = read_integer(block, at, 6 if is_kept else 4)
        if number:
            name = self._find(number)[0]
        else:
            name, at = read_text(block, at)
        value, at = read_text(block, at)
        headers.append((name, value))
        if is_kept:
            self._keep(name, value)
        return at

    def _find(self, number: int) -> tuple[str, str]:
        if not number:
            raise HeaderError("there is no header number 0")
        if number <= len(STATIC):
            return STATIC[number - 1]
        return self._recent[number - len(STATIC) - 1]

    def _keep(self, name: str, value: str) -> None:
        size = len(name) + len(value) + ENTRY_BYTES
        self._evict(size)
        if size <= self._limit:
            self._recent.appendleft((name, value))
            self._size += size

    def _evict(self, needed: int) -> None:
        while self._recent and self._size + needed > self._limit:
            name, value = self._recent.pop()
            self._size -= len(name) + len(value) + ENTRY_BYTES


def read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Read a number whose first part has so many bits; return it and where it ends."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    shift = 0
    while True:
        number += (block[at] & 0x7F) << shift
        at += 1
        shift += 7
        if not block[at - 1] & 0x80:
            return number, at


def read_text(block: bytes, at: int) -> tuple[str, int]:
    """Read a text; return it and where it ends."""
    is_coded = bool(block[at] & 0x80)
    length, at = read_integer(block, at, 7)
    data = block[at : at + length]
    if len(data) < length:
        raise IndexError
    return (decode_huffman(data) if is_coded else data).decode("latin-1"), at + length


@cache
def huffman_codes() -> dict[tuple[int, int], int]:
    """Return which byte each code stands for, by its length and its value."""
    codes: dict[tuple[int, int], int] = {}
    code = 0
    for length in range(SHORTEST, LONGEST + 1):
        letter = chr(ord("A") + length - SHORTEST)
        for byte, known in enumerate(CODE_LENGTHS):
            if known == letter:
                codes[length, code] = byte
                code += 1
        code <<= 1
    return codes


def decode_huffman(data: bytes) -> bytes:
    """Decode a text in the code of Appendix B; what is left at the end is padding."""
    codes, text = huffman_codes(), bytearray()
    length = code = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            known = codes.get((length, code))
            if known is not None:
                text.append(known)
                length = code = 0
    return bytes(text)


def encode_headers(headers: list[tuple[str, str]]) -> bytes:
    """Encode a block in the plainest way: no header is remembered, no text is coded."""
    block = bytearray()
    for name, value in headers:
        block.append(0)
        for text in (name.encode(), value.encode()):
            block += _encode_length(len(text)) + text
    return bytes(block)


def _encode_length(length: int) -> bytes:
    if length < 0x7F:
        return bytes([length])
    rest, parts = length - 0x7F, bytearray([0x7F])
    while rest >= 0x80:
        parts.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*parts, rest])
