"""Answers that turn a connection into another protocol's, whose data go on to a node unread."""

from __future__ import annotations

import msgspec

from kubewright.local.relay import MessageSocket

SPDY = "SPDY/3.1"
WEB_SOCKET = "websocket"


class UpgradeResponse(msgspec.Struct):
    """An answer whose carrier upgrades the connection and relays it to `upstream`.

    `protocol` is the sub-protocol that both sides speak, or for SPDY the version of what the
    streams carry. A carrier that cannot upgrade closes `upstream`.
    """

    protocol: str
    upstream: MessageSocket
    upgrade: str = WEB_SOCKET
    status: int = 101
    headers: list[tuple[str, str]] = []
