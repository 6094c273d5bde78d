"""One reconcile of one object, as logs, metrics, traces and records know it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from contextvars import ContextVar
from itertools import islice
from random import Random
from typing import NamedTuple
from uuid import UUID

from kubewright.api.resource import NamespacedName, Resource

_MOST_TRIGGERS = 8
"""What is kept of a storm of events: its first triggers, and the last one."""
_MOST_LINES = 64
"""What is kept of a long plan, and of many children."""


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


class Trigger(NamedTuple):
    """What woke an object: a change of an object, or another cause in a word.

    `start` and `resync`: everything is looked at. `retry`: it failed before. `timer`: its last
    reconcile asked for it. `asked`: the program did. `again`: it changed at the moment at which a
    worker took it.

    Of a change, `cause` is the type of the event (`ADDED`, `MODIFIED`, `DELETED`), and the other
    fields say which object it was and the version that it has since.
    """

    cause: str
    resource: Resource | None = None
    key: NamespacedName | None = None
    version: str = ""

    def __str__(self) -> str:
        if self.resource is None:
            return self.cause
        return f"{self.cause} {self.resource.kind} {self.key} at version {self.version or '?'}"


class Write(NamedTuple):
    """A write to the API server; `answer` is its HTTP status, or the error instead of one."""

    verb: str
    path: str
    answer: str
    seconds: float


class Attempt:
    """One reconcile of one object.

    The controller makes it, observers hear of it, and `Context.attempt` and `current_attempt` have
    it while it lasts. Everything in it is small, text or numbers: it may be kept. Triggers, steps
    and what is wanted are noted where the manager's observer is `detailed`.

    Arguments:
        controller: the name of the controller.
        resource: the kind of the object; `key` is its name.
        started: when the attempt began.
        ids: where the random bits of its `id` come from.

    Attributes:
        started: when it began, in the controller's monotonic seconds.
        waited: seconds until the stores had seen what the object's last reconcile wrote; None where
            that had written nothing.
        settled: whether they had; False where the wait timed out.
        seconds, outcome: how long it took and how it ended; set when observers hear of its end.
        failure: the deepest cause of its failure, in full; empty where it did not fail.
        failures: how often in a row the object failed, this time among them.
        is_bug: whether the program is at fault, in a way that would be a panic in Go.
        timed_out: whether its function did not end within the operator's `reconcile_timeout`.
        retry_after: seconds until the object is tried or looked at again; None where nothing says.
        wanted: the children that should exist; None where that was not computed.
        steps: the plan, one readable line each.
        versions: the resource version of the object and of each store that was there to be read.
    """

    # Defaults of the class, not set by each of very many: most reconciles have nothing to tell.
    detailed: bool = False
    triggers: tuple[Trigger, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    wanted: tuple[str, ...] | None = None
    steps: tuple[str, ...] = ()
    writes: list[Write] | None = None
    waited: float | None = None
    settled: bool = True
    seconds: float = 0.0
    outcome: Outcome = Outcome.SUCCESS
    failure: str = ""
    failures: int = 0
    is_bug: bool = False
    timed_out: bool = False
    retry_after: float | None = None
    _id: str | None = None

    def __init__(
        self,
        controller: str,
        resource: Resource,
        key: NamespacedName,
        *,
        started: float,
        ids: Random,
    ) -> None:
        self.controller = controller
        self.resource = resource
        self.key = key
        self.started = started
        self._ids = ids

    @property
    def id(self) -> str:
        """The reconcileID: a random UUID, made when it is first asked for."""
        if self._id is None:
            self._id = str(UUID(int=self._ids.getrandbits(128), version=4))
        return self._id

    def note_plan(self, wanted: Iterable[str], steps: Iterable[str]) -> None:
        """Note which children should exist, and the steps to get there."""
        self.wanted = _shorten(wanted)
        self.steps = _shorten(steps)


def _shorten(lines: Iterable[str]) -> tuple[str, ...]:
    lines = iter(lines)
    kept = tuple(islice(lines, _MOST_LINES))
    more = sum(1 for _ in lines)
    return (*kept, f"… and {more} more") if more else kept


current_attempt: ContextVar[Attempt | None] = ContextVar("current_attempt", default=None)
"""The reconcile that the running code belongs to, also in tasks and threads that it started."""


class Triggers:
    """Remember what woke each key until its reconcile begins."""

    def __init__(self) -> None:
        self._noted: dict[NamespacedName, list[Trigger]] = {}
        self._timers: set[NamespacedName] = set()

    def note(self, key: NamespacedName, trigger: Trigger) -> None:
        """Remember a trigger; of a storm the first ones and the last one."""
        noted = self._noted.setdefault(key, [])
        if len(noted) < _MOST_TRIGGERS:
            noted.append(trigger)
        else:
            noted[-1] = trigger

    def note_timer(self, key: NamespacedName) -> None:
        """Remember that a key will be looked at again, though nothing may wake it."""
        self._timers.add(key)

    def take(self, key: NamespacedName, *, has_failed: bool) -> tuple[Trigger, ...]:
        """Return and forget what woke a key."""
        noted = self._noted.pop(key, None)
        cause = "retry" if has_failed else "timer" if key in self._timers else "again"
        self._timers.discard(key)
        return tuple(noted) if noted else (Trigger(cause),)
