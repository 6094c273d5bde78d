"""Events as kube-controller-manager writes them: the core form, with a source and a count.

The runtime's recorder writes the newer form (events.k8s.io), as the scheduler does. Tools read
`source`, `count` and `lastTimestamp` of what the other controllers say, so these keep them.
"""

from __future__ import annotations

import msgspec

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_time
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Reconcile
from kubewright.runtime.event_series import Series
from kubewright.runtime.events import EventBroadcaster, EventRecorder
from kubewright.runtime.result import Result


class CoreEventBroadcaster(EventBroadcaster):
    """Write the Events of the controllers; a runnable of the manager that runs them."""

    resource = builtin.CORE_EVENT

    def build_event(self, series: Series) -> Object:
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
            **self.build_recurrence(series),
        }

    def build_recurrence(self, series: Series) -> Object:
        """Build the part of an Event that each repetition changes."""
        return {"count": series.count, "lastTimestamp": format_time(series.last)}


def with_recorder(reconcile: Reconcile, recorder: EventRecorder) -> Reconcile:
    """Make a reconcile record its Events through a recorder of its own."""

    async def recording(key: NamespacedName, ctx: Context) -> Result | None:
        return await reconcile(key, msgspec.structs.replace(ctx, recorder=recorder))

    return recording
