"""How many retries may begin, so that failures do not add to the load that causes them."""

from __future__ import annotations

RETRY_RATE = 10.0
RETRY_BURST = 100

_WHOLE = 1 - 1e-9
"""A token, but for what adding fractions of seconds loses."""


class RetryBudget:
    """A bucket of tokens, one for each retry. Pure: told the time in seconds.

    It holds `burst` tokens and gains `rate` a second: the numbers of client-go's rate limiter. In
    addition each success after a failure brings its token back. While everything fails, a
    controller thus sends no more than ten retries a second, however many objects it has; as soon
    as the cause is gone, the rest follows as fast as the workers are. client-go's bucket would
    let the last of 5,000 objects wait for eight minutes.
    """

    def __init__(self, *, rate: float = RETRY_RATE, burst: float = RETRY_BURST) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted_at = 0.0

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < _WHOLE:
            return False
        self._tokens = max(self._tokens - 1, 0.0)
        return True

    def give_back(self) -> None:
        """Bring a token back: what was retried has succeeded."""
        self._tokens = min(self._burst, self._tokens + 1)

    def next_at(self) -> float:
        """Return the time from which on `take` succeeds."""
        return self._counted_at + max(0.0, 1 - self._tokens) / self._rate

    def _refill(self, now: float) -> None:
        if now > self._counted_at:
            gained = (now - self._counted_at) * self._rate
            self._tokens = min(self._burst, self._tokens + gained)
            self._counted_at = now
