"""What a reconcile asks for when it ends well."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from kubewright.runtime.queue import Priority


class Result(msgspec.Struct, frozen=True):
    """Say when to come back to an object although nothing changed.

    Without `after`, or with no result at all, the object is looked at again when it, its children
    or something it watches changes. A change that arrives earlier replaces the wait: the reconcile
    that it causes decides anew.

    `priority` is how urgent the object is when the wait is over. A look that may wait, such as
    measuring a backup's age, takes `Priority.LOW`: thousands of them then delay no user.

    A wait of nothing, or of a time that is past, is over at once. An object that asks for that
    fifty times in a row is called twice a second.

    A wait is not kept: a new process looks at every object when it starts.

    Raises:
        TypeError: `after` is a number: say of what, such as `timedelta(seconds=30)`.
    """

    after: timedelta | None = None
    priority: Priority = Priority.HIGH

    def __post_init__(self) -> None:
        if self.after is not None and not isinstance(self.after, timedelta):
            raise TypeError(f"Result(after={self.after!r}): give a timedelta, such as seconds=30")


def earliest(first: Result | None, second: Result | None) -> Result | None:
    """Return which of two results comes first; one that names no time asks for nothing."""
    waits = [each for each in (first, second) if each is not None and each.after is not None]
    return min(waits, key=lambda each: each.after or timedelta(), default=None)
