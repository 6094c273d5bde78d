"""How long a Job waits before it replaces pods that failed: 10 s, doubling to 10 minutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.job.job_pod import finish_time

FIRST = timedelta(seconds=10)
MOST = timedelta(minutes=10)

_NOTHING = timedelta()


class Backoff(msgspec.Struct, frozen=True):
    """How many pods failed since one last succeeded, and when the last of them did."""

    failures: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Backoff:
        """Return the back-off when these pods have ended as well; a success clears it."""
        successes = [finish_time(pod) for pod in succeeded]
        failures = [finish_time(pod) for pod in failed]
        if not successes and not failures:
            return self
        if not successes:
            return Backoff(self.failures + len(failures), max(failures))
        later = [moment for moment in failures if moment > max(successes)]
        return Backoff(len(later), max(later, default=None))

    def remaining(self, now: datetime) -> timedelta:
        """Return how long to wait before pods are made again."""
        if not self.failures or self.last_failure is None:
            return _NOTHING
        # More than ten doublings are beyond the longest wait; a large power would overflow.
        doubled: int = 2 ** min(self.failures - 1, 10)
        return max(self.last_failure + min(FIRST * doubled, MOST) - now, _NOTHING)
