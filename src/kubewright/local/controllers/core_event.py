"""Events as kube-controller-manager writes them: the core form, with a source and a count.

The runtime's recorder writes the newer form (events.k8s.io), as the scheduler does. Tools read
`source`, `count` and `lastTimestamp` of what the other controllers say, so these keep them.
"""

from __future__ import annotations

import dataclasses
import logging

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError, NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.requests import PatchType
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Reconcile
from kubewright.runtime.event_series import Correlator, Occurrence, Series
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result

_logger = logging.getLogger(__name__)


class CoreEventBroadcaster:
    """Write the Events of the controllers; a runnable of the manager that runs them."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._correlator = Correlator()
        self._alarm = Alarm(clock)

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder that reports as a component, such as `deployment-controller`."""
        return EventRecorder(component, self._record)

    async def run(self) -> None:
        """Write Events as they come; ends by cancellation."""
        while True:
            due = self._correlator.next_due()
            seconds = None if due is None else (due - self._clock.now()).total_seconds()
            await self._alarm.wait(seconds)
            for series in list(self._correlator.due(self._clock.now())):
                await self._write(series)

    def _record(self, occurrence: Occurrence) -> None:
        self._correlator.record(occurrence, self._clock.now())
        self._alarm.set()

    async def _write(self, series: Series) -> None:
        count = series.count
        try:
            if series.written:
                await self._client.patch(
                    builtin.CORE_EVENT,
                    series.key.name,
                    build_recurrence(series),
                    type=PatchType.MERGE,
                    namespace=series.key.namespace,
                )
            else:
                await self._client.create(build_event(series))
        except NotFound:
            # Events expire after an hour, and namespaces go away.
            self._correlator.drop(series)
        except KubewrightError as error:
            if not isinstance(error, NamespaceTerminating):
                _logger.warning("an Event about %s was not written: %s", series.key, error)
            self._correlator.drop(series)
        else:
            self._correlator.wrote(series, count, self._clock.now())


def build_event(series: Series) -> Object:
    """Build the Event of a series (v1)."""
    occurrence = series.occurrence
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": series.key.namespace},
        "involvedObject": dict(occurrence.regarding),
        "reason": occurrence.reason,
        "message": occurrence.note[:1024],
        "type": occurrence.type,
        "source": {"component": occurrence.component},
        "reportingComponent": occurrence.component,
        "firstTimestamp": format_time(series.first),
        **build_recurrence(series),
    }


def build_recurrence(series: Series) -> Object:
    """Build the part of an Event that each repetition changes."""
    return {"count": series.count, "lastTimestamp": format_time(series.last)}


def with_recorder(reconcile: Reconcile, recorder: EventRecorder) -> Reconcile:
    """Make a reconcile record its Events through a recorder of its own."""

    async def recording(key: NamespacedName, ctx: Context) -> Result | None:
        return await reconcile(key, dataclasses.replace(ctx, recorder=recorder))

    return recording
