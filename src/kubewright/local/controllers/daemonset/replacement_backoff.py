"""How often a pod that fails on a node is replaced: a node that refuses it must not be flooded."""

from __future__ import annotations

from datetime import timedelta

import msgspec

_FIRST = 1.0
_MOST = 900.0


class _Delay(msgspec.Struct):
    seconds: float
    since: float


class ReplacementBackoff:
    """Delays per DaemonSet, generation and node: 1 s, doubling to 15 min.

    It is forgotten after half an hour without failures, and with the process: then the first
    replacement comes at once.
    """

    def __init__(self) -> None:
        self._delays: dict[tuple[str, int], dict[str, _Delay]] = {}

    def wait(self, owner: tuple[str, int], node: str, now: float) -> timedelta:
        """Return how long to wait before a failed pod may be replaced; zero counts it as done.

        Args:
            owner: The UID of the DaemonSet, and the generation that it was seen at.
            node: The name of the node.
            now: A monotonic time in seconds.
        """
        delays = self._delays.setdefault(owner, {})
        delay = delays.get(node)
        if delay is None or now - delay.since > 2 * _MOST:
            delays[node] = _Delay(_FIRST, now)
            return timedelta()
        left = delay.since + delay.seconds - now
        if left > 0:
            return timedelta(seconds=left)
        delays[node] = _Delay(min(delay.seconds * 2, _MOST), now)
        return timedelta()

    def forget(self, uid: str, generation: int | None = None) -> None:
        """Forget a DaemonSet that is gone, or its generations before this one."""
        for owner in [o for o in self._delays if o[0] == uid and o[1] != generation]:
            del self._delays[owner]
