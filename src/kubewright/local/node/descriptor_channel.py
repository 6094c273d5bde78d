"""Messages with descriptors over UNIX sockets, between an agent and the holder of its network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_MESSAGE = 4096


def listen(path: Path) -> socket.socket:
    """Make a socket that agents of this user can connect to by a path."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reach(path) as name:
        listener.bind(name)
    path.chmod(0o600)
    listener.listen()
    return listener


@contextlib.contextmanager
def reach(path: Path) -> Iterator[str]:
    """Yield a name of a socket's path that the kernel takes: one of 107 bytes at most."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


async def send(channel: socket.socket, message: bytes, descriptors: Sequence[int]) -> None:
    """Send one message with descriptors; waits while the other end does not read."""
    while True:
        try:
            socket.send_fds(channel, [message], list(descriptors))
        except BlockingIOError:
            await writable(channel)
        else:
            return


async def writable(channel: socket.socket) -> None:
    """Wait until a socket can be written to."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(channel)


async def receive(channel: socket.socket) -> tuple[bytes, list[int], int]:
    """Receive one message with its descriptors and the sender's process id as seen from here."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(channel)
    size = socket.CMSG_SPACE(4 * 8) + socket.CMSG_SPACE(12)
    message, ancillary, _, _ = channel.recvmsg(MAX_MESSAGE, size, socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    pid = 0
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack(f"{len(data) // 4}i", data)
        elif kind == socket.SCM_CREDENTIALS:
            pid = struct.unpack("3i", data)[0]
    return message, descriptors, pid
