"""What typed reads of all workloads have in common. Pure."""

from __future__ import annotations

import msgspec

from kubewright.api.resource import NamespacedName, Object


class Workload(msgspec.Struct, frozen=True, dict=True):
    """Typed reads of a decoded workload; each kind adds its own fields."""

    obj: Object

    @property
    def key(self) -> NamespacedName:
        """Namespace and name."""
        return NamespacedName.of(self.obj)

    @property
    def name(self) -> str:
        """The name."""
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The UID that owned objects refer to."""
        return str(self.obj["metadata"]["uid"])

    @property
    def is_deleting(self) -> bool:
        """Tell whether it was asked to end."""
        return self.obj["metadata"].get("deletionTimestamp") is not None

    @property
    def spec(self) -> Object:
        """The decoded spec."""
        spec: Object = self.obj["spec"]
        return spec

    @property
    def status(self) -> Object:
        """The status as it is stored."""
        return self.obj.get("status") or {}
