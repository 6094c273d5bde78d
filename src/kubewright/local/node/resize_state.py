"""What the status of a pod tells of its resize."""

from __future__ import annotations

import msgspec


class ResizeState(msgspec.Struct, frozen=True):
    """A condition of a pod: its resize waits for room, or is underway; and why it still is."""

    type: str
    reason: str = ""
    message: str = ""
