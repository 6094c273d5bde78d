"""Netlink messages and attributes: how the kernel's packet filter is spoken to (RFC 3549)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from kubewright.api.errors import KubewrightError

NLM_F_REQUEST, NLM_F_ACK = 0x1, 0x4
NLM_F_CREATE, NLM_F_APPEND = 0x400, 0x800
NLMSG_ERROR = 2
NLA_F_NESTED = 0x8000
NFNL_BATCH_BEGIN, NFNL_BATCH_END = 16, 17
NFNL_SUBSYS_NFTABLES = 10
NFPROTO_IPV4 = 2
SEND_BUFFER = 4 << 20

_HEADER = struct.Struct("=IHHII")
_GENERIC = struct.Struct("!BBH")
_ATTRIBUTE = struct.Struct("=HH")


class KernelRefused(KubewrightError):
    """The kernel refused a change; nothing of the transaction was made. `code` is its errno."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the kernel's packet filter refused a change: {os.strerror(code)}")
        self.code = code


def attribute(type: int, value: bytes) -> bytes:
    """Build an attribute, padded to four bytes."""
    size = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(size, type) + value + bytes(-size % 4)


def nested(type: int, *attributes: bytes) -> bytes:
    """Build an attribute that holds others."""
    return attribute(type | NLA_F_NESTED, b"".join(attributes))


def text(type: int, value: str) -> bytes:
    """Build an attribute of a text, which ends with a zero."""
    return attribute(type, value.encode() + b"\0")


def number(type: int, value: int) -> bytes:
    """Build an attribute of 32 bits, the highest first."""
    return attribute(type, struct.pack("!I", value & 0xFFFFFFFF))


def long_number(type: int, value: int) -> bytes:
    """Build an attribute of 64 bits, the highest first."""
    return attribute(type, struct.pack("!Q", value))


class Message(bytes):
    """What one message of a transaction says: its type, flags and attributes."""

    @classmethod
    def of(cls, type: int, *attributes: bytes, flags: int = 0) -> Message:
        """Build a message to nf_tables about IPv4."""
        body = _GENERIC.pack(NFPROTO_IPV4, 0, 0) + b"".join(attributes)
        kind = NFNL_SUBSYS_NFTABLES << 8 | type
        return cls(struct.pack("=HH", kind, flags | NLM_F_REQUEST) + body)


def build_transaction(messages: Sequence[Message], first: int) -> bytes:
    """Build the bytes of a transaction, numbered from `first`; the last message is answered."""
    parts = [_frame(NFNL_BATCH_BEGIN, NLM_F_REQUEST, first, _GENERIC.pack(0, 0, 10))]
    for index, message in enumerate(messages, start=1):
        kind, flags = struct.unpack_from("=HH", message)
        is_last = index == len(messages)
        flags |= NLM_F_ACK if is_last else 0
        parts.append(_frame(kind, flags, first + index, message[4:]))
    end = first + len(messages) + 1
    parts.append(_frame(NFNL_BATCH_END, NLM_F_REQUEST, end, _GENERIC.pack(0, 0, 10)))
    return b"".join(parts)


def _frame(kind: int, flags: int, number: int, body: bytes) -> bytes:
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, kind, flags, number, 0) + body + bytes(-size % 4)


def read_answers(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the number of each message that was answered, and its errno, or 0."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        size, kind, _, number, _ = _HEADER.unpack_from(data, offset)
        if kind == NLMSG_ERROR:
            (code,) = struct.unpack_from("=i", data, offset + _HEADER.size)
            yield number, -code
        offset += max(_HEADER.size, (size + 3) & ~3)


def build_message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    """Build a message to the kernel about IPv4, outside of a transaction."""
    return _frame(kind, flags | NLM_F_REQUEST, number, _GENERIC.pack(socket.AF_INET, 0, 0) + body)


def read_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each message, after its header."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        size, kind, *_ = _HEADER.unpack_from(data, offset)
        yield kind, data[offset + _HEADER.size : offset + size]
        offset += max(_HEADER.size, (size + 3) & ~3)


def read_attributes(data: bytes) -> dict[int, bytes]:
    """Read attributes by their types; nested ones are left as they are."""
    found = {}
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, offset)
        found[kind & 0x3FFF] = data[offset + _ATTRIBUTE.size : offset + size]
        offset += max(_ATTRIBUTE.size, (size + 3) & ~3)
    return found


class PacketFilter:
    """The kernel's packet filter in one network namespace, where a netlink socket was made.

    A transaction is carried out by the kernel while it is sent: no packet sees a part of it, and
    nothing waits. The caller must own the namespace (as root, or as the user who made it).
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._number = 1
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def commit(self, messages: Iterable[Message]) -> None:
        """Carry a transaction out: all of it or nothing.

        Raises:
            KernelRefused: a message was refused; the first reason is told.
        """
        listed = list(messages)
        if not listed:
            return
        first = self._number
        self._number = (self._number + len(listed) + 2) & 0x7FFFFFFF or 1
        try:
            self._channel.send(build_transaction(listed, first))
            self._await_last(first, first + len(listed))
        except OSError as error:
            raise KernelRefused(error.errno or errno.EIO) from error

    def _await_last(self, first: int, last: int) -> None:
        """Read the answers, which are all there when sending has returned."""
        failure = 0
        while True:
            for number, code in read_answers(self._channel.recv(1 << 16)):
                if not first <= number <= last + 1:
                    continue
                failure = failure or code
                if failure or number >= last:
                    self._drain()
                    if failure:
                        raise KernelRefused(failure)
                    return

    def _drain(self) -> None:
        try:
            while self._channel.recv(1 << 16):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the socket; what was made stays, for as long as the network does."""
        self._channel.close()
