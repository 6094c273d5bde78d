"""What the cluster network asks of the network namespace that a node's pods hang on."""

from __future__ import annotations

import socket
from typing import Literal, Protocol, TypeAlias

SocketKind: TypeAlias = Literal["tcp", "udp", "netfilter"]


class NetworkNamespace(Protocol):
    """The network that a node's pods hang on. Sockets are made there and used from outside."""

    @property
    def gateway(self) -> str:
        """The node's own address in the network."""
        ...

    @property
    def cidr(self) -> str:
        """The network of this node's pods."""
        ...

    async def open_socket(self, kind: SocketKind) -> socket.socket:
        """Make a socket there; it does not block. Raises NetworkError."""
        ...

    async def add_address(self, address: str) -> None:
        """Make an address the node's own. Raises NetworkError."""
        ...

    async def open_wire(self) -> socket.socket:
        """Open the way to pods of other nodes. Raises NetworkError."""
        ...

    async def add_route(self, network: str) -> None:
        """Let addresses of another node's pods lead there. Raises NetworkError."""
        ...

    async def remove_route(self, network: str) -> None:
        """Let them no longer. Raises NetworkError."""
        ...
