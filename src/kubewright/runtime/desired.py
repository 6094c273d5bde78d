"""The desired-state engine: compare what should exist with what does, then write the difference.

`plan_children` decides and is pure; `apply_plan` writes. A second plan on the result of the first
is empty, so an interrupted one is completed by the next reconcile, whatever it left behind.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.api.errors import (
    Invalid,
    KubewrightError,
    NotFound,
    TerminalError,
    TransportError,
)
from kubewright.api.metadata import controller_of
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object
from kubewright.runtime.applied_memory import AppliedMemory
from kubewright.runtime.child_kind import ChildKey, ChildKind, child_key
from kubewright.runtime.context import Context
from kubewright.runtime.owned_fields import find_entry, is_applied


class Action(enum.Enum):
    """What a step does."""

    CREATE = "create"
    APPLY = "apply"
    DELETE = "delete"
    WAIT = "wait for"
    """A child that is being deleted: it can be made anew when it is gone."""
    REFUSE = "refuse"
    """An object that is not ours has the name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: `obj` is what to apply, `live` what is there."""

    action: Action
    kind: ChildKind
    key: NamespacedName
    reason: str
    obj: Object | None = None
    live: Object | None = None

    def __str__(self) -> str:
        return f"{self.action.value} {self.kind.resource.kind} {self.key}: {self.reason}"


@dataclass(slots=True)
class Outcome:
    """What a plan led to: the children as the server answered them, and what failed."""

    written: dict[ChildKey, Object] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    news: dict[str, list[str]] = field(default_factory=dict)
    """What to tell people: by reason, the children that it happened to."""


def plan_children(
    owner: Object,
    desired: Sequence[Object],
    live: Iterable[Object],
    kinds: Mapping[GroupVersionKind, ChildKind],
    *,
    manager: str,
    memory: AppliedMemory | None = None,
) -> list[Step]:
    """Return the steps from the live children to the desired ones; empty when nothing differs.

    `desired` comes from `build_children`. `live` holds what the owner owns and what has the name of
    a desired child, with managedFields. Deletions come last, so that what replaces a child is there
    before. Only what this manager applied for this owner is ever deleted.
    """
    found = {child_key(obj): obj for obj in live}
    uid: str = owner["metadata"]["uid"]
    steps = []
    for obj in desired:
        kind, before = kinds[GroupVersionKind.of(obj)], found.get(child_key(obj))
        step = _plan_child(uid, obj, before, kind, manager, memory)
        if step is not None:
            steps.append(step)
    wanted = {child_key(obj) for obj in desired}
    for key, obj in found.items():
        if key not in wanted and key[0] in kinds and _is_ours_to_delete(obj, uid, manager):
            reason = "it is no longer desired"
            steps.append(Step(Action.DELETE, kinds[key[0]], key[1], reason, live=obj))
    return steps


async def apply_plan(
    ctx: Context,
    owner: Object,
    steps: Iterable[Step],
    *,
    manager: str,
    memory: AppliedMemory,
) -> Outcome:
    """Carry out a plan. A refused child does not keep the others from being written.

    Raises:
        TransportError: the server does not answer; what follows was not tried.
    """
    outcome = Outcome()
    try:
        for step in steps:
            await _carry_out(ctx, owner, step, manager, memory, outcome)
    finally:
        for reason, children in outcome.news.items():
            # One Event for all of them: an owner of many children must not make a storm.
            ctx.recorder.event(owner, "Normal", reason, f"{reason} {', '.join(children)}")
    return outcome


def is_immutable_refusal(error: Exception) -> bool:
    """Tell whether the API refused a change because the field may never change.

    The API has no reason of its own for this: the wording of its validations decides.
    """
    return isinstance(error, Invalid) and any(
        phrase in error.message
        for phrase in (
            "field is immutable",
            "is immutable",
            "updates to statefulset spec for fields other than",
            "pod updates may not change fields other than",
            "may not change once set",
            "cannot be changed",
        )
    )


def _plan_child(
    uid: str,
    obj: Object,
    live: Object | None,
    kind: ChildKind,
    manager: str,
    memory: AppliedMemory | None,
) -> Step | None:
    key = NamespacedName.of(obj)
    if live is None:
        return Step(Action.CREATE, kind, key, "it does not exist", obj)
    controller = controller_of(live)
    if controller is not None and controller.get("uid") != uid:
        other = f"{controller.get('kind')} {controller.get('name')}"
        return Step(Action.REFUSE, kind, key, f"it belongs to {other}", obj, live)
    if controller is None and not kind.adopt and find_entry(live, manager) is None:
        reason = (
            "it exists, and neither was it made by this operator nor does it have an owner; "
            "delete or rename it, or let the operator adopt such objects"
        )
        return Step(Action.REFUSE, kind, key, reason, obj, live)
    if live["metadata"].get("deletionTimestamp"):
        return Step(Action.WAIT, kind, key, "it is being deleted", obj, live)
    if is_applied(obj, live, manager):
        return None
    if memory is not None and memory.knows(uid, obj, live, manager):
        return None
    return Step(Action.APPLY, kind, key, "it differs", obj, live)


def _is_ours_to_delete(obj: Object, uid: str, manager: str) -> bool:
    """Tell whether a child was applied for this owner; what a reconcile created is not."""
    controller = controller_of(obj)
    return (
        controller is not None
        and controller.get("uid") == uid
        and find_entry(obj, manager) is not None
        and not obj["metadata"].get("deletionTimestamp")
    )


async def _carry_out(
    ctx: Context,
    owner: Object,
    step: Step,
    manager: str,
    memory: AppliedMemory,
    outcome: Outcome,
) -> None:
    try:
        match step.action:
            case Action.WAIT:
                pass
            case Action.REFUSE:
                raise TerminalError(f"{step.kind.resource.kind} {step.key}: {step.reason}")
            case Action.DELETE:
                await _delete(ctx, step, outcome, "Deleted")
            case _:
                await _apply(ctx, owner, step, manager, memory, outcome)
    except TransportError:
        raise
    except KubewrightError as error:
        outcome.failures.append(error)


async def _apply(
    ctx: Context,
    owner: Object,
    step: Step,
    manager: str,
    memory: AppliedMemory,
    outcome: Outcome,
) -> None:
    obj, uid = step.obj or {}, owner["metadata"]["uid"]
    refusal = memory.refusal(uid, obj, step.live, ctx.clock.monotonic())
    if refusal is not None:
        raise refusal
    body = obj
    if step.live is not None:
        # Only this very child: one that was deleted and made by others meanwhile is not ours.
        body = {**obj, "metadata": {**obj["metadata"], "uid": step.live["metadata"]["uid"]}}
    try:
        written = await ctx.apply(body, field_manager=manager)
    except Invalid as error:
        if step.kind.on_immutable == "recreate" and step.live and is_immutable_refusal(error):
            # Its end is an event: the next reconcile makes it anew.
            await _delete(ctx, step, outcome, "Recreating")
            return
        memory.refuse(uid, obj, step.live, error, ctx.clock.monotonic())
        raise
    memory.remember(uid, obj, written, manager)
    outcome.written[child_key(obj)] = written
    if step.action is Action.CREATE:
        _note(ctx, step, outcome, "Created")


async def _delete(ctx: Context, step: Step, outcome: Outcome, reason: str) -> None:
    uid: str = (step.live or {})["metadata"]["uid"]
    try:
        await ctx.delete(step.kind.resource, step.key, uid=uid)
    except NotFound:
        return
    _note(ctx, step, outcome, reason)


def _note(ctx: Context, step: Step, outcome: Outcome, reason: str) -> None:
    ctx.logger.info("%s", step)
    child = f"{step.kind.resource.kind} {step.key.name}"
    outcome.news.setdefault(reason, []).append(child)
