"""Events about pods and their containers."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord
from kubewright.runtime.event_series import EventType
from kubewright.runtime.events import EventRecorder


class PodRecorder(EventRecorder):
    """Records Events that name the container they are about, as `kubectl describe` wants them."""

    def container_event(
        self, pod: Object, record: ContainerRecord, type: EventType, reason: str, note: str
    ) -> None:
        """Record that something happened to a container of a pod."""
        self.event(pod, type, reason, note, field_path=record.field_path)
