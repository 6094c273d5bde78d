"""What the runtime tells whoever measures it; by default nobody does.

The runtime knows no metrics system: `kubewright.telemetry` implements these protocols.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Protocol


class Outcome(enum.Enum):
    """How a reconcile ended."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    """It asked to be called again after a time."""
    REQUEUE = "requeue"
    """It raced with somebody else (`Remedy.REREAD`) and is tried again: no fault of anybody."""
    ERROR = "error"
    TERMINAL = "terminal"
    """It failed and is not tried again until something changes."""


class ControllerObserver(Protocol):
    """Hear of one controller and its queue. Calls are on the event loop and must return at once.

    `now` is in the seconds of the controller's monotonic clock.
    """

    def added(self, key: Hashable, priority: int, now: float) -> None:
        """A key became ready, or a ready one more urgent."""
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

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        """A reconcile ended; one that was cancelled is not told."""
        ...

    def stalled(self, count: int) -> None:
        """So many objects have failed ten times in a row, or wait for a change, from now on."""
        ...


class Observer(Protocol):
    """Hear of a manager."""

    def controller(self, name: str, workers: int) -> ControllerObserver:
        """Return what hears of a controller; called once for each, before it runs."""
        ...

    def leading(self, lease: str, *, is_leading: bool) -> None:
        """This process began or ceased to lead; also told when it begins to stand by."""
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

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        """Do nothing."""

    def stalled(self, count: int) -> None:
        """Do nothing."""


class NoObserver:
    """Hear of a manager and forget."""

    def controller(self, name: str, workers: int) -> ControllerObserver:
        """Return an observer that forgets."""
        return UNOBSERVED

    def leading(self, lease: str, *, is_leading: bool) -> None:
        """Do nothing."""


UNOBSERVED = NoControllerObserver()
