"""Connecting to a server of a test, as probes connect into the pod network."""

from __future__ import annotations

import asyncio
import socket


async def connect(address: str, port: int) -> socket.socket:
    """Connect to a server of this machine."""
    connection = socket.socket()
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except OSError:
        connection.close()
        raise
    return connection
