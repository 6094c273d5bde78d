"""Delays that grow while something keeps failing."""

from __future__ import annotations

from random import Random

_QUIET_SECONDS = 120.0


class Backoff:
    """Give delays from `base` seconds doubling to `cap`, each with up to as much jitter on top.

    It begins anew after two minutes without a failure, or when told of a success. The jitter keeps
    the watches that one server restart broke from coming back together.
    """

    def __init__(self, random: Random, *, base: float = 0.8, cap: float = 30.0) -> None:
        self._random = random
        self._base = base
        self._cap = cap
        self._failed_at: float | None = None
        self.failures = 0

    def next(self, now: float) -> float:
        """Count a failure at the monotonic time `now`; return the seconds to wait after it."""
        if self._failed_at is not None and now - self._failed_at > _QUIET_SECONDS:
            self.reset()
        # Beyond 2^16 the cap holds anyway, and the power must not overflow in a long outage.
        delay = self._base * 2.0 ** min(self.failures, 16)
        self.failures += 1
        self._failed_at = now
        return min(self._cap, delay * (1.0 + self._random.random()))

    def reset(self) -> None:
        """Begin anew after a success."""
        self.failures = 0
