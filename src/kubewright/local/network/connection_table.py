"""The kernel's table of known connections: what must be forgotten when a backend goes.

TCP connections end by themselves. A client of a datagram service that always uses one port would be
led to its old backend for as long as it keeps asking, since the kernel remembers where the first
datagram went.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Collection, Iterator

import msgspec

from kubewright.local.network.netlink import (
    NLA_F_NESTED,
    NLM_F_ACK,
    NLMSG_ERROR,
    attribute,
    build_message,
    read_attributes,
    read_messages,
)

_logger = logging.getLogger(__name__)

NFNL_SUBSYS_CTNETLINK = 1
GET, DELETE = 1, 2
NLM_F_DUMP, NLMSG_DONE = 0x300, 3
ORIGINAL, REPLY = 1, 2
MAX_PART = 1 << 16
TUPLE_ADDRESSES, TUPLE_PROTOCOL = 1, 2


class Connection(msgspec.Struct, frozen=True):
    """A connection that the kernel knows: as it was begun, and who answers."""

    original: bytes
    protocol: int
    answers_from: tuple[bytes, int]
    """The address and port of the backend."""


def read_connections(data: bytes) -> Iterator[Connection]:
    """Yield the connections of a part of the kernel's answer."""
    for kind, body in read_messages(data):
        if kind in (NLMSG_ERROR, NLMSG_DONE):
            continue
        attributes = read_attributes(body[4:])
        if ORIGINAL not in attributes or REPLY not in attributes:
            continue
        reply = read_attributes(attributes[REPLY])
        addresses = read_attributes(reply[TUPLE_ADDRESSES])
        protocol = read_attributes(reply[TUPLE_PROTOCOL])
        if 1 in addresses and 2 in protocol:
            (port,) = struct.unpack("!H", protocol[2][:2])
            backend = addresses[1], port
            yield Connection(attributes[ORIGINAL], protocol[1][0], backend)


class ConnectionTable:
    """The connections that are known in one network namespace, by a netlink socket made there."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def forget(self, protocol: int, backends: Collection[tuple[bytes, int]]) -> int:
        """Forget the connections of a protocol to backends; return how many were known.

        A kernel that does not tell its connections is left alone: clients come to other backends
        when they have been silent for a while.
        """
        forgotten = 0
        try:
            for connection in self._list():
                if connection.protocol == protocol and connection.answers_from in backends:
                    self._delete(connection)
                    forgotten += 1
        except OSError as error:
            _logger.warning("connections to backends that are gone stay: %s", error.strerror)
        return forgotten

    def _list(self) -> list[Connection]:
        kind = NFNL_SUBSYS_CTNETLINK << 8 | GET
        self._channel.send(build_message(kind, NLM_F_DUMP, 1, b""))
        found: list[Connection] = []
        while True:
            data = self._channel.recv(MAX_PART)
            found += read_connections(data)
            if any(kind in (NLMSG_DONE, NLMSG_ERROR) for kind, _ in read_messages(data)):
                return found

    def _delete(self, connection: Connection) -> None:
        kind = NFNL_SUBSYS_CTNETLINK << 8 | DELETE
        original = attribute(ORIGINAL | NLA_F_NESTED, connection.original)
        self._channel.send(build_message(kind, NLM_F_ACK, 2, original))
        # Gone by itself meanwhile, or not: either way it is answered once.
        self._channel.recv(MAX_PART)

    def close(self) -> None:
        """Close the socket."""
        self._channel.close()
