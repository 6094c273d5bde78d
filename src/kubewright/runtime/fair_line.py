"""A line of waiting keys in which groups take turns: who has many does not keep out who has few."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Ticket(NamedTuple, Generic[K]):
    """The place of a key that is ready: since when, in which line, and whose turn counts."""

    since: float
    priority: int
    key: K


class FairLine(Generic[K]):
    """Tickets of one priority. Groups take turns; within a group the earliest goes first.

    Whoever reads says which tickets are valid: a key that left the line otherwise is skipped here
    when its turn comes. Every operation takes constant time, however many groups there are.

    Attributes:
        passed: how often the line was passed over for a more urgent one since it was last served.
    """

    __slots__ = ("_groups", "_turns", "passed")

    def __init__(self, passed: int) -> None:
        self.passed = passed
        self._groups: dict[Hashable, deque[Ticket[K]]] = {}
        self._turns: deque[Hashable] = deque()

    def append(self, group: Hashable, ticket: Ticket[K]) -> None:
        """Let a ticket wait behind those of its group."""
        waiting = self._groups.get(group)
        if waiting is None:
            self._groups[group] = deque((ticket,))
            self._turns.append(group)
        else:
            waiting.append(ticket)

    def first(self, valid: Mapping[K, Ticket[K]]) -> Ticket[K] | None:
        """Return the ticket whose turn it is; None when no valid one waits."""
        while self._turns:
            group = self._turns[0]
            waiting = self._groups[group]
            while waiting:
                ticket = waiting[0]
                if valid.get(ticket.key) is ticket:
                    return ticket
                waiting.popleft()
            del self._groups[group]
            self._turns.popleft()
        return None

    def serve(self) -> None:
        """Take away the ticket that `first` returned: its group waits for its next turn."""
        self.passed = 0
        group = self._turns[0]
        waiting = self._groups[group]
        waiting.popleft()
        if waiting:
            self._turns.rotate(-1)
        else:
            del self._groups[group]
            self._turns.popleft()
