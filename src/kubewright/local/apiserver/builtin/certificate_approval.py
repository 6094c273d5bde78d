"""The approval of a signing request: the one subresource that decides about its conditions."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.certificates import validate_conditions
from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy
from kubewright.local.apiserver.field_error import forbidden
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.objectmeta import validate_object_meta_update

_FINAL = ("Approved", "Denied")


class ApprovalStrategy(BuiltinStrategy):
    """The strategy of a signing request whose conditions are written, and nothing else.

    Args:
        kind: the kind of signing requests.
        now: the time of new conditions.
    """

    def __init__(self, kind: ServedKind, now: str) -> None:
        super().__init__(kind.resource, kind.definition, has_status=True)
        self._now = now

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Keep the old request but for its conditions, which get their times."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        super().prepare_for_update(obj, old)
        before = {c.get("type"): c for c in (old.get("status") or {}).get("conditions") or ()}
        status = {**(old.get("status") or {})}
        status.pop("conditions", None)
        if conditions:
            status["conditions"] = [self._timed(c, before.get(c.get("type"))) for c in conditions]
        obj["status"] = status

    def _timed(self, condition: Object, before: Object | None) -> Object:
        since = self._now
        if before is not None and before.get("status") == condition.get("status"):
            since = before.get("lastTransitionTime") or self._now
        return {
            **condition,
            "lastUpdateTime": condition.get("lastUpdateTime") or self._now,
            "lastTransitionTime": condition.get("lastTransitionTime") or since,
        }

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return what is wrong with the conditions; a decision is for ever."""
        causes = validate_object_meta_update(obj["metadata"], old["metadata"])
        causes += validate_conditions(obj)
        kept = {c.get("type") for c in obj["status"].get("conditions") or ()}
        for condition in (old.get("status") or {}).get("conditions") or ():
            name = condition.get("type")
            if name in _FINAL and name not in kept:
                detail = f'updates may not remove a condition of type "{name}"'
                causes.append(forbidden("status.conditions", detail))
        return causes
