"""The status of a custom resource: computed once at the end, written only when it differs."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Protocol, TypeAlias, TypeGuard

import msgspec

from kubewright.api.conditions import (
    READY,
    RECONCILING,
    STALLED,
    Condition,
    ConditionStatus,
    find_condition,
    set_condition,
)
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.runtime.context import Context
from kubewright.runtime.owned_fields import extract_owned, is_applied
from kubewright.runtime.readiness import Progress, Readiness


class StatusModel(Protocol):
    """A pydantic model of a status, as far as it must be known here."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> Object:
        """Return the fields as JSON has them."""
        ...


def is_status_model(value: object) -> TypeGuard[StatusModel]:
    """Tell an instance of a model; asked at each reconcile, so it looks at one name only."""
    return hasattr(type(value), "model_dump")


_OWN = frozenset({READY, RECONCILING, STALLED})

StatusValue: TypeAlias = StatusModel | Object | None


class Summary(msgspec.Struct, frozen=True):
    """How far an object has come, for its conditions: in a word for programs and a sentence."""

    progress: Progress
    reason: str
    message: str = ""

    @classmethod
    def of(cls, readiness: Readiness) -> Summary:
        """Summarise the progress of the children."""
        match readiness.progress:
            case Progress.CURRENT:
                return cls(Progress.CURRENT, "AsDesired", "all children are ready")
            case Progress.FAILED:
                return cls(Progress.FAILED, "ChildFailed", readiness.message)
            case _:
                return cls(Progress.IN_PROGRESS, "ChildrenNotReady", readiness.message)


def build_conditions(
    previous: list[Object], summary: Summary, *, generation: int, now: datetime
) -> list[Object]:
    """Set Ready, Reconciling and Stalled as kstatus reads them; the others stay as they are.

    At most one of them is true: the object is as desired, on its way, or needs help.
    """
    truths = {
        READY: summary.progress is Progress.CURRENT,
        RECONCILING: summary.progress in (Progress.IN_PROGRESS, Progress.TERMINATING),
        STALLED: summary.progress is Progress.FAILED,
    }
    conditions, text = previous, format_time(now)
    for type, is_true in truths.items():
        if is_true or type == READY:
            status: ConditionStatus = "True" if is_true else "False"
            condition = Condition(type, status, summary.reason, summary.message)
        else:
            condition = Condition(type, "False", f"Not{type}")
        conditions = set_condition(conditions, condition, now=text, generation=generation)
    return conditions


def build_status(
    owner: Object, value: StatusValue, summary: Summary, *, manager: str, now: datetime
) -> Object:
    """Build the status to apply: what the status function says, generation and conditions.

    Without a value, as after a failure, the fields that this manager said before stay.
    """
    if value is None:
        said: Object = extract_owned(owner, manager, subresource="status").get("status") or {}
    else:
        said = dump_status(value)
    generation = owner["metadata"].get("generation") or 0
    # The transition times of our own conditions come from the object: a value need not know them.
    before = (owner.get("status") or {}).get("conditions") or []
    others = [c for c in said.get("conditions") or () if c.get("type") not in _OWN]
    if value is not None:
        others = [_complete(c, before, generation=generation, now=now) for c in others]
    own = [c for c in before if c.get("type") in _OWN]
    said["conditions"] = build_conditions([*others, *own], summary, generation=generation, now=now)
    said["observedGeneration"] = generation
    return said


def _complete(condition: Object, before: list[Object], *, generation: int, now: datetime) -> Object:
    """Add the times to a condition that a status function says: it is pure, and has no clock."""
    if "lastTransitionTime" in condition:
        return condition
    last = find_condition(before, condition["type"])
    said = Condition(
        condition["type"],
        condition["status"],
        condition.get("reason") or condition["type"],
        condition.get("message") or "",
    )
    [complete] = set_condition(
        [] if last is None else [last], said, now=format_time(now), generation=generation
    )
    return complete


def dump_status(value: StatusModel | Object) -> Object:
    """Return what a status function said as JSON has it."""
    if isinstance(value, dict):
        return dict(value)
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def ensure_status(
    ctx: Context, owner: Object, status: Object, *, manager: str
) -> Object | None:
    """Apply a status through `/status` unless it is there; return the object if it was written.

    Server-side apply rather than a merge patch: fields that are no longer said go by themselves,
    conditions of others stay, and there is no version to conflict on. The UID keeps the status from
    a namesake.

    Raises:
        NotFound: the object is gone.
        Conflict: another object has its name now.
    """
    metadata = owner["metadata"]
    identity = {key: metadata[key] for key in ("name", "namespace", "uid") if metadata.get(key)}
    desired: Object = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": identity,
        "status": status,
    }
    if is_applied(desired, owner, manager, subresource="status"):
        return None
    return await ctx.apply(desired, subresource="status", field_manager=manager)


def condition_reason(text: str) -> str:
    """Make a word that the API takes as a condition's reason."""
    word = re.sub(r"[^A-Za-z0-9_]", "", text)
    return word if word[:1].isalpha() else f"Failed{word}"


def steady_message(text: str) -> str:
    """Take out of a message what differs each time it is made: addresses of Python objects."""
    return re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x…", text)[:32768]
