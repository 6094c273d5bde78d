"""Events: what an operator tells people about an object, as `kubectl describe` shows it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError, NamespaceTerminating, NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.requests import PatchType
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.event_series import Correlator, EventType, Occurrence, Series

_HOST = socket.gethostname()

_logger = logging.getLogger(__name__)


class EventRecorder:
    """Record Events in the name of a component.

    Nothing is sent at once and nothing can fail: the manager writes in the background, folds
    repetitions into a count, and drops what the API server refuses. Events tell people; no program
    may depend on them.
    """

    def __init__(self, component: str, record: Callable[[Occurrence], None]) -> None:
        self._component = component
        self._instance = f"{component}-{_HOST}"
        self._record = record

    def event(
        self,
        regarding: Object,
        type: EventType,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: Object | None = None,
    ) -> None:
        """Record that something happened to an object.

        `reason` is a CamelCase word for programs, `note` a sentence for people (1 kB at most),
        `action` what the component did or tried, by default the reason.
        """
        self._record(
            Occurrence(
                component=self._component,
                instance=self._instance,
                regarding=build_reference(regarding),
                related=() if related is None else build_reference(related),
                type=type,
                reason=reason,
                action=action or reason,
                note=note,
            )
        )


class EventBroadcaster:
    """Write the Events of all recorders of a manager (events.k8s.io/v1)."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._correlator = Correlator()
        self._alarm = Alarm(clock)
        self._writing = asyncio.Lock()

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder that reports as a component, such as `deployment-controller`."""
        return EventRecorder(component, self._record)

    async def run(self) -> None:
        """Write Events as they come; ends by cancellation."""
        while True:
            due = self._correlator.next_due()
            seconds = None if due is None else (due - self._clock.now()).total_seconds()
            await self._alarm.wait(seconds)
            await self.flush()

    async def flush(self) -> None:
        """Write what is due now."""
        async with self._writing:
            for series in list(self._correlator.due(self._clock.now())):
                await self._write(series)

    def _record(self, occurrence: Occurrence) -> None:
        self._correlator.record(occurrence, self._clock.now())
        self._alarm.set()

    async def _write(self, series: Series) -> None:
        count = series.count
        try:
            if series.written:
                await self._update(series)
            else:
                await self._client.create(series.to_object())
        except (NotFound, NamespaceTerminating):
            # Events expire after an hour, and namespaces go away.
            self._correlator.drop(series)
        except KubewrightError as error:
            _logger.warning("an Event about %s was not written: %s", series.key, error)
            self._correlator.drop(series)
        else:
            self._correlator.wrote(series, count, self._clock.now())

    async def _update(self, series: Series) -> None:
        key = series.key
        await self._client.patch(
            builtin.EVENT,
            key.name,
            {"series": series.to_series()},
            type=PatchType.MERGE,
            namespace=key.namespace,
        )


def build_reference(obj: Object) -> tuple[tuple[str, str], ...]:
    """Build an ObjectReference to an object: the fields that `kubectl describe` selects by."""
    metadata = obj.get("metadata") or {}
    reference = {
        "apiVersion": obj.get("apiVersion") or "",
        "kind": obj.get("kind") or "",
        "namespace": metadata.get("namespace") or "",
        "name": metadata.get("name") or "",
        "uid": metadata.get("uid") or "",
    }
    return tuple((key, value) for key, value in reference.items() if value)
