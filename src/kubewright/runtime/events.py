"""Events: what an operator tells people about an object, as `kubectl describe` shows it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import ClassVar

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError, NamespaceTerminating, NotFound
from kubewright.api.resource import Object, Resource
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
    may depend on them. `instance` tells several of a component apart, such as the node of a
    kubelet; by default it names this host.
    """

    def __init__(
        self, component: str, record: Callable[[Occurrence], None], *, instance: str = ""
    ) -> None:
        self._component = component
        self._instance = instance or f"{component}-{_HOST}"
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
        field_path: str = "",
    ) -> None:
        """Record that something happened to an object, or to the part of it at `field_path`.

        Arguments:
            regarding: the object, with apiVersion, kind and metadata.
            type: `Normal`, or `Warning` for what somebody should look at.
            reason: a CamelCase word for programs.
            note: a sentence for people, 1 kB at most.
            action: what the component did or tried, by default the reason.
            related: another object that has a part in it.
            field_path: the part, such as `spec.containers{main}`.
        """
        self._record(
            Occurrence(
                component=self._component,
                instance=self._instance,
                regarding=build_reference(regarding, field_path=field_path),
                related=() if related is None else build_reference(related),
                type=type,
                reason=reason,
                action=action or reason,
                note=note,
            )
        )


class EventBroadcaster:
    """Write the Events of all recorders of a manager.

    The form is that of events.k8s.io/v1; a subclass may write another.
    """

    resource: ClassVar[Resource] = builtin.EVENT

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._correlator = Correlator()
        self._alarm = Alarm(clock)
        self._writing = asyncio.Lock()

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder that reports as a component, such as `deployment-controller`."""
        return EventRecorder(component, self.record)

    def build_event(self, series: Series) -> Object:
        """Build the Event of a series. Pure."""
        return series.to_object()

    def build_recurrence(self, series: Series) -> Object:
        """Build the part of an Event that a repetition changes, as a merge patch. Pure."""
        return {"series": series.to_series()}

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

    def record(self, occurrence: Occurrence) -> None:
        """Take what a recorder reports; nothing is sent yet."""
        self._correlator.record(occurrence, self._clock.now())
        self._alarm.set()

    async def _write(self, series: Series) -> None:
        count = series.count
        try:
            if series.written:
                await self._update(series)
            else:
                await self._client.create(self.build_event(series))
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
            self.resource,
            key.name,
            self.build_recurrence(series),
            type=PatchType.MERGE,
            namespace=key.namespace,
        )


def build_reference(obj: Object, *, field_path: str = "") -> tuple[tuple[str, str], ...]:
    """Build an ObjectReference: what `kubectl describe` selects by, and the path of a part."""
    metadata = obj.get("metadata") or {}
    reference = {
        "apiVersion": obj.get("apiVersion") or "",
        "kind": obj.get("kind") or "",
        "namespace": metadata.get("namespace") or "",
        "name": metadata.get("name") or "",
        "uid": metadata.get("uid") or "",
        "fieldPath": field_path,
    }
    return tuple((key, value) for key, value in reference.items() if value)
