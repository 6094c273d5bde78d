"""The resize of a pod, which no node of this server carries out."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy
from kubewright.local.apiserver.field_error import forbidden
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.objectmeta import validate_object_meta_update


class ResizeStrategy(BuiltinStrategy):
    """The strategy of a pod that is resized: every change is refused, as for an old node."""

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(kind.resource, kind.definition, has_status=True)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Refuse another spec: containers keep the resources that they started with."""
        causes = validate_object_meta_update(obj["metadata"], old["metadata"])
        if obj["spec"] != old["spec"]:
            detail = "Pod running on node without support for resize"
            causes.append(forbidden("spec", detail))
        return causes
