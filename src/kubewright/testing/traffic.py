"""What passed: the requests of a client, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kubewright.testing.call import Call


class Traffic:
    """The requests that were sent, in order, also those that a fault hit.

    Attributes:
        calls: every request, watches too.
        in_flight: requests that wait for an answer now; a watch counts only until it opens.
        max_in_flight: the most that ever waited at once.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.in_flight = 0
        self.max_in_flight = 0

    @property
    def total(self) -> int:
        """How many requests were sent."""
        return len(self.calls)

    @property
    def writes(self) -> list[Call]:
        """The requests that may have changed something, in order."""
        return [call for call in self.calls if call.is_write]

    @property
    def by_verb(self) -> Counter[str]:
        """How many requests were sent of each verb."""
        return Counter(call.verb for call in self.calls)

    def reset(self) -> None:
        """Forget the past; what is in flight stays counted."""
        self.calls.clear()
        self.max_in_flight = self.in_flight

    @contextmanager
    def flight(self, call: Call) -> Iterator[None]:
        """Count a request, and as in flight while the block lasts."""
        self.calls.append(call)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= 1
