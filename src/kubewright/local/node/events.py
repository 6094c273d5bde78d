"""Events about pods and their containers."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord
from kubewright.runtime.event_series import EventType, Occurrence
from kubewright.runtime.events import EventRecorder, build_reference


class PodRecorder(EventRecorder):
    """Records Events that name the container they are about, as `kubectl describe` wants them."""

    @classmethod
    def of(cls, recorder: EventRecorder, node: str) -> PodRecorder:
        """Build a recorder that records where another one does, in the name of a node."""
        pod_recorder = cls(recorder._component, recorder._record)
        pod_recorder._instance = node
        return pod_recorder

    def container_event(
        self, pod: Object, record: ContainerRecord, type: EventType, reason: str, note: str
    ) -> None:
        """Record that something happened to a container of a pod."""
        self._record(
            Occurrence(
                component=self._component,
                instance=self._instance,
                regarding=(*build_reference(pod), ("fieldPath", record.field_path)),
                related=(),
                type=type,
                reason=reason,
                action=reason,
                note=note,
            )
        )
