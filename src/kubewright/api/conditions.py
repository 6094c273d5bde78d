"""Conditions: what an object says of itself (API conventions, "Typical status properties").

Kubewright's own follow kstatus: `Ready` is true when the object is as wanted; `Reconciling` is true
while it is on its way; `Stalled` is true when it cannot get there without help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from kubewright.api.resource import Object

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]

READY = "Ready"
"""The type of the condition that is true when all is as desired, and has come to rest."""
RECONCILING = "Reconciling"
"""The type of the condition that is true while the object is on its way."""
STALLED = "Stalled"
"""The type of the condition that is true when nothing will change by itself."""


class Condition(msgspec.Struct, frozen=True):
    """One aspect of an object's state.

    `type` names the aspect, such as `Ready`; `status` is "True", "False" or "Unknown". `reason` is
    a CamelCase word for programs, `message` a sentence for people.

    Source: the API conventions, "Typical status properties".
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""

    def to_object(self) -> Object:
        """Return the condition as a status function says it: the runtime adds the times."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
        }


def set_condition(
    conditions: Sequence[Object], condition: Condition, *, now: str, generation: int | None = None
) -> list[Object]:
    """Return the conditions with one set; the given ones are not changed.

    `lastTransitionTime` becomes `now` only when the status differs from before: a message may
    change without a transition.

    Arguments:
        conditions: those of a status, as dicts.
        condition: what takes the place of the one of its type, or comes last.
        now: the time as the API writes it; see `kubewright.api.time.format_time`.
        generation: becomes the condition's `observedGeneration`; None leaves it out.
    """
    before = find_condition(conditions, condition.type)
    same = before is not None and before.get("status") == condition.status
    since = before.get("lastTransitionTime") if before and same else None
    entry: Object = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since or now,
    }
    if generation is not None:
        entry["observedGeneration"] = generation
    if before is None:
        return [*conditions, entry]
    return [entry if c.get("type") == condition.type else c for c in conditions]


def find_condition(conditions: Sequence[Object], type: str) -> Object | None:
    """Return the one of some conditions that has a type, as it is; None where there is none."""
    return next((c for c in conditions if c.get("type") == type), None)


def is_condition_true(obj: Object, type: str) -> bool:
    """Tell whether an object's status has a condition of a type with status "True".

    An object without a status, or without that condition, has not.
    """
    condition = find_condition((obj.get("status") or {}).get("conditions") or (), type)
    return condition is not None and condition.get("status") == "True"
