"""How long to wait before something that failed is tried again: 10 s, doubling to 5 minutes."""

from __future__ import annotations

INITIAL_SECONDS = 10.0
MAX_SECONDS = 300.0
RESET_SECONDS = 600.0


class Backoff:
    """The back-off of one container or image. It is told the time, in monotonic seconds."""

    def __init__(self) -> None:
        self._delay = 0.0
        self._until = 0.0
        self._failed_at: float | None = None

    @property
    def seconds(self) -> float:
        """The present delay; 0 when nothing has failed twice."""
        return self._delay

    @property
    def until(self) -> float:
        """When the next attempt may begin."""
        return self._until

    def fail(self, now: float, *, ran_since: float | None = None) -> None:
        """Note a failure.

        The first one delays nothing. What ran for ten minutes since `ran_since` starts afresh.
        """
        began = now if ran_since is None else ran_since
        if self._failed_at is None or now - began >= RESET_SECONDS:
            self._delay = 0.0
        elif self._delay == 0.0:
            self._delay = INITIAL_SECONDS
        else:
            self._delay = min(self._delay * 2, MAX_SECONDS)
        self._failed_at = now
        self._until = now + self._delay

    def is_waiting(self, now: float) -> bool:
        """Tell whether the next attempt must still wait."""
        return now < self._until
