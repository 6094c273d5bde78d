"""What a reconcile asks for when it ends well."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Result:
    """Say when to come back to an object although nothing changed.

    Without `after`, or with no result at all, the object is looked at again when it, its children
    or something it watches changes. A change that arrives earlier replaces the wait: the reconcile
    that it causes decides anew.
    """

    after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.after is not None and not isinstance(self.after, timedelta):
            raise TypeError(f"Result(after={self.after!r}): give a timedelta, such as seconds=30")
