"""The protobuf wire format: tags, varints, length-delimited fields (encoding version 2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
Value = int | bytes


class WireError(ValueError):
    """Bytes that are no protobuf message."""


def read_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield number, wire type and value of each field of a message, in the order written.

    Varints and fixed numbers come as unsigned numbers, delimited fields as bytes.

    Raises:
        WireError: the message is cut off, or has a field of an unknown wire type.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError("proto: illegal tag 0")
        value: Value
        if wire == VARINT:
            value, position = _read_varint(data, position)
        elif wire == DELIMITED:
            length, start = _read_varint(data, position)
            position = start + length
            value = data[start:position]
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value = int.from_bytes(data[position : position + size], "little")
            position += size
        else:
            raise WireError(f"proto: illegal wireType {wire}")
        if position > end:
            raise WireError("unexpected EOF")
        yield number, wire, value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data):
            raise WireError("unexpected EOF")
        if shift >= 64:
            raise WireError("proto: integer overflow")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7


def read_packed(data: bytes) -> Iterator[int]:
    """Yield the numbers of a packed field of varints."""
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position)
        yield value


def signed(value: int, bits: int = 64) -> int:
    """Read a varint as the two's complement number of this many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def to_double(bits: int) -> float:
    """Read a fixed number of 64 bits as a floating-point number."""
    number: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return number
