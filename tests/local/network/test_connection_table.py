from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

from kubewright.local.network.connection_table import (
    Connection,
    ConnectionTable,
    read_connections,
)
from kubewright.local.network.netlink import (
    attribute,
    build_message,
    nested,
    read_attributes,
    read_messages,
)

UDP = 17
FIRST, SECOND = ("10.244.0.2", 5300), ("10.244.0.3", 5300)
CLIENT = ("10.244.0.9", 4444)


def build_tuple(type: int, source: tuple[str, int], target: tuple[str, int]) -> bytes:
    addresses = (IPv4Address(source[0]).packed, IPv4Address(target[0]).packed)
    ports = (struct.pack("!H", source[1]), struct.pack("!H", target[1]))
    return nested(
        type,
        nested(1, attribute(1, addresses[0]), attribute(2, addresses[1])),
        nested(2, attribute(1, bytes([UDP])), attribute(2, ports[0]), attribute(3, ports[1])),
    )


def build_connection(backend: tuple[str, int]) -> bytes:
    """Build a connection to a Service as the kernel tells of it: the backend answers."""
    service = ("10.96.1.1", 53)
    body = build_tuple(1, CLIENT, service) + build_tuple(2, backend, CLIENT)
    return build_message(1 << 8, 0, 1, body)


DONE = build_message(3, 0, 1, b"")


def test_reads_who_answers() -> None:
    (found,) = read_connections(build_connection(FIRST))
    assert isinstance(found, Connection)
    assert found.protocol == UDP
    assert found.answers_from == (IPv4Address(FIRST[0]).packed, FIRST[1])


def test_ignores_what_is_no_connection() -> None:
    assert list(read_connections(DONE + build_message(1 << 8, 0, 1, b""))) == []


def test_attributes_are_read_as_they_are_built() -> None:
    inner = attribute(1, b"abc") + attribute(2, b"d")
    assert read_attributes(attribute(7, b"xy") + nested(9, inner)) == {7: b"xy", 9: inner}


def test_only_connections_of_backends_that_are_gone_are_forgotten() -> None:
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, kernel:
        kernel.send(build_connection(FIRST) + build_connection(SECOND))
        kernel.send(DONE)
        kernel.send(build_message(2, 0, 2, bytes(4)))
        gone = (IPv4Address(SECOND[0]).packed, SECOND[1])
        assert ConnectionTable(ours).forget(UDP, {gone}) == 1

        kernel.recv(1 << 16)
        ((kind, body),) = read_messages(kernel.recv(1 << 16))
        assert kind == 1 << 8 | 2
        original = read_attributes(body[4:])[1]
        assert original in build_connection(SECOND)


def test_kernel_that_tells_nothing_is_left_alone() -> None:
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kernel.close()
    with ours:
        assert ConnectionTable(ours).forget(UDP, {(b"", 1)}) == 0
