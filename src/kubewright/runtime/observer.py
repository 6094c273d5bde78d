"""What the runtime tells whoever measures it; by default nobody does.

The runtime knows no metrics system: `kubewright.telemetry` implements these protocols.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from kubewright.cache.cache import Cache
from kubewright.runtime.attempt import Attempt


class ControllerObserver(Protocol):
    """Hear of one controller and its queue. Calls are on the event loop and must return at once.

    `now` is in the seconds of the controller's monotonic clock.
    """

    def added(self, key: Hashable, priority: int, now: float) -> None:
        """A key became ready with a `Priority`, or a ready one more urgent."""
        ...

    def taken(self, key: Hashable, now: float) -> None:
        """A worker took a ready key."""
        ...

    def done(self, key: Hashable, now: float) -> None:
        """A worker is done with a key."""
        ...

    def retried(self, key: Hashable) -> None:
        """A key will come back after its back-off."""
        ...

    def began(self, attempt: Attempt) -> None:
        """A reconcile begins, in the task that runs it."""
        ...

    def reconciled(self, attempt: Attempt) -> None:
        """A reconcile ended, in the same task; one that was cancelled is not told."""
        ...

    def stalled(self, count: int) -> None:
        """So many objects have failed ten times in a row, or wait for a change, from now on."""
        ...


class Observer(Protocol):
    """Hear of a manager."""

    @property
    def detailed(self) -> bool:
        """Whether attempts are to note what woke them, what they want and their plan."""
        ...

    def attached(self, cache: Cache) -> None:
        """A manager was made; this is the cache that its controllers will share."""
        ...

    def controller(self, name: str, workers: int) -> ControllerObserver:
        """Return what hears of a controller with so many workers; called once, before it runs."""
        ...

    def leading(self, lease: str, *, is_leading: bool) -> None:
        """This process began or ceased to lead, by a Lease; also told when it begins to stand by.

        `is_leading` says which; `lease` is the name of the Lease.
        """
        ...

    def renewed_slowly(self, lease: str) -> None:
        """A leader had to read its Lease before it could renew it."""
        ...


class NoControllerObserver:
    """Hear and forget."""

    def added(self, key: Hashable, priority: int, now: float) -> None:
        """Do nothing."""

    def taken(self, key: Hashable, now: float) -> None:
        """Do nothing."""

    def done(self, key: Hashable, now: float) -> None:
        """Do nothing."""

    def retried(self, key: Hashable) -> None:
        """Do nothing."""

    def began(self, attempt: Attempt) -> None:
        """Do nothing."""

    def reconciled(self, attempt: Attempt) -> None:
        """Do nothing."""

    def stalled(self, count: int) -> None:
        """Do nothing."""


class NoObserver:
    """Hear of a manager and forget."""

    detailed = False

    def attached(self, cache: Cache) -> None:
        """Do nothing."""

    def controller(self, name: str, workers: int) -> ControllerObserver:
        """Return an observer that forgets."""
        return UNOBSERVED

    def leading(self, lease: str, *, is_leading: bool) -> None:
        """Do nothing."""

    def renewed_slowly(self, lease: str) -> None:
        """Do nothing."""


UNOBSERVED = NoControllerObserver()
