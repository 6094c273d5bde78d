"""The desired-state engine: compare what should exist with what does, then write the difference.

`plan_children` decides and is pure; `apply_plan` writes. A second plan on the result of the first
is empty, so an interrupted one is completed by the next reconcile, whatever it left behind.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubewright.api.errors import (
    Conflict,
    Invalid,
    KubewrightError,
    NotFound,
    TerminalError,
    TransportError,
)
from kubewright.api.metadata import controller_of
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object
from kubewright.runtime.applied_memory import AppliedMemory
from kubewright.runtime.child_kind import (
    OWNER,
    ChildKey,
    ChildKind,
    ChildMap,
    child_key,
    owner_name,
)
from kubewright.runtime.child_value import find_surrogate
from kubewright.runtime.context import Context
from kubewright.runtime.gate import compute_gate, stage_of
from kubewright.runtime.owned_fields import find_entry, is_applied


class NameTaken(TerminalError):
    """A child's name is somebody else's: the child is made when it is free."""


class Action(enum.Enum):
    """What a step does."""

    CREATE = "create"
    APPLY = "apply"
    DELETE = "delete"
    WAIT = "wait for"
    """A child that is being deleted, or will be: it can be made anew when it is gone."""
    HOLD = "hold back"
    """What comes after a gate that is not passed yet; a deletion before its turn."""
    AWAIT_KIND = "cannot make"
    """The API server does not serve the kind of the child: its definition is not installed."""
    REFUSE = "refuse"
    """An object that is not ours has the name."""


# No object can have it: the store's first revision is no object's. An apply that names it can only
# create; kube-apiserver answers Conflict when the object exists, and ignores it when it does not.
_NEVER = "1"

_IMMUTABLE = (
    "is immutable",
    "updates to statefulset spec for fields other than",
    "pod updates may not change fields other than",
    "may not change once set",
    "may not be changed in an update",
    "cannot be changed",
    "cannot change roleRef",
    "updates to parameters are forbidden",
)
"""How the API's validations, and those of custom kinds by custom, say that a field never changes;
there is no reason of its own for it."""


class Step(msgspec.Struct, frozen=True):
    """One step of a plan: the `action`, the child that it is about, and the `reason` in words.

    `obj` is what to apply, `live` what is there; None where nothing is.
    """

    action: Action
    kind: ChildKind
    key: NamespacedName
    reason: str
    obj: Object | None = None
    live: Object | None = None

    def __str__(self) -> str:
        return f"{self.action.value} {self.kind.resource.kind} {self.key}: {self.reason}"


class Outcome(msgspec.Struct):
    """What a plan led to: the children as the server answered them, and what failed."""

    written: dict[ChildKey, Object] = {}
    deleted: set[ChildKey] = set()
    """What was there when the plan was made, and is not, or not for long, after it."""
    failures: list[Exception] = []
    news: dict[str, list[str]] = {}
    """What to tell people: by reason, the children that it happened to."""


def plan_children(
    owner: Object,
    desired: ChildMap,
    live: ChildMap,
    kinds: Mapping[GroupVersionKind, ChildKind],
    *,
    manager: str,
    memory: AppliedMemory | None = None,
    missing: Collection[GroupVersionKind] = (),
) -> list[Step]:
    """Return the steps from the live children to the desired ones; empty when nothing differs.

    `desired` comes from `build_children`. `live` holds what the owner owns and what has the name of
    a desired child, with managedFields. Deletions come last, so that what replaces a child is there
    before. Only what this manager applied for this owner is ever deleted. What comes after a `Gate`
    that is not passed, and every deletion meanwhile, is held back. Children of a kind in `missing`
    cannot be made: the API server does not serve it.
    """
    steps: list[Step] = []
    stage, closed = 0, ""
    for key, obj in desired.items():
        if not closed and stage_of(obj) > stage:
            closed = _find_closed(desired, stage_of(obj), live, steps)
            stage = stage_of(obj)
        if key[0] in missing:
            kind = kinds[key[0]]
            steps.append(Step(Action.AWAIT_KIND, kind, key[1], _say_missing(kind), obj))
            continue
        step = _plan_child(owner, obj, live.get(key), kinds[key[0]], manager, memory)
        if step is not None and closed and step.action in (Action.CREATE, Action.APPLY):
            step = replace(step, action=Action.HOLD, reason=closed)
        if step is not None:
            steps.append(step)
    unwanted = [obj for key, obj in live.items() if key not in desired and key[0] in kinds]
    return steps + _plan_deletions(owner, unwanted, kinds, manager, closed)


def _say_missing(kind: ChildKind) -> str:
    resource = kind.resource
    return (
        f"the API server does not serve {resource.kind} in {resource.api_version}: install its "
        f"definition, {resource.group_resource}; it is made when that is there"
    )


def find_children(owner: Object, live: Iterable[Object], *, manager: str) -> list[Object]:
    """Return the live objects that were applied for an owner, also those that are ending."""
    return [obj for obj in live if _is_applied_for(obj, owner["metadata"]["uid"], manager)]


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


def guard(obj: Object, live: Object | None) -> Object:
    """Make an apply that fails unless it meets what was read.

    Server-side apply by one manager for two owners would hand the child from one to the other: the
    entry that it replaces holds the owner reference. So a child is created only where none is, and
    one that nobody controls is taken only at the very version that was read.
    """
    if live is None:
        guard = {"resourceVersion": _NEVER}
    else:
        guard = {"uid": live["metadata"]["uid"]}
        if controller_of(live) is None:
            guard["resourceVersion"] = live["metadata"]["resourceVersion"]
    return {**obj, "metadata": {**obj["metadata"], **guard}}


def build_encoding_refusal(step: Step) -> TerminalError:
    """Say which text of a child cannot be sent."""
    return TerminalError(
        f"{step.kind.resource.kind} {step.key}: {find_surrogate(step.obj)} is no text that UTF-8 "
        "can hold: it has half of a character"
    )


def is_immutable_refusal(error: Exception) -> bool:
    """Tell whether the API refused a change because the field may never change."""
    return (
        isinstance(error, Invalid)
        and not _is_about_another(error)
        and any(phrase in error.message for phrase in _IMMUTABLE)
    )


def _find_closed(
    desired: ChildMap,
    stage: int,
    live: ChildMap,
    steps: Sequence[Step],
) -> str:
    """Say what keeps the gate before a stage closed; nothing when it is open."""
    for step in steps:
        return f"{step.kind.resource.kind} {step.key.name} comes first: {step.reason}"
    for key, obj in desired.items():
        if stage_of(obj) >= stage:
            break
        readiness = compute_gate(live[key])
        if not readiness.is_ready:
            return f"{obj['kind']} {obj['metadata']['name']} comes first: {readiness.message}"
    return ""


def _plan_child(
    owner: Object,
    obj: Object,
    live: Object | None,
    kind: ChildKind,
    manager: str,
    memory: AppliedMemory | None,
) -> Step | None:
    key = NamespacedName.of(obj)
    if live is None:
        return Step(Action.CREATE, kind, key, "it does not exist", obj)
    if _is_of_namesake(owner, live):
        reason = f"it belongs to an earlier {owner['kind']} of this name, and goes with it"
        return Step(Action.WAIT, kind, key, reason, obj, live)
    if refusal := _find_other_owner(owner, live, kind, manager):
        return Step(Action.REFUSE, kind, key, refusal, obj, live)
    if live["metadata"].get("deletionTimestamp"):
        return Step(Action.WAIT, kind, key, "it is being deleted", obj, live)
    if is_applied(obj, live, manager):
        return None
    if memory is not None and memory.knows(owner["metadata"]["uid"], obj, live, manager):
        return None
    return Step(Action.APPLY, kind, key, "it differs", obj, live)


def _is_of_namesake(owner: Object, live: Object) -> bool:
    """Tell whether a child's owner is one of the same name that was deleted before."""
    controller, metadata = controller_of(live), owner["metadata"]
    if controller is None or controller.get("uid") == metadata["uid"]:
        return False
    kind = GroupVersionKind.parse(controller.get("apiVersion", ""), controller.get("kind", ""))
    return (
        kind.group_kind == GroupVersionKind.of(owner).group_kind
        and controller.get("name") == metadata["name"]
    )


def _find_other_owner(owner: Object, live: Object, kind: ChildKind, manager: str) -> str:
    """Say why a live object of the desired name is not this owner's; nothing when it is."""
    controller = controller_of(live)
    if controller is not None:
        if controller.get("uid") == owner["metadata"]["uid"]:
            return ""
        return f"it belongs to {controller.get('kind')} {controller.get('name')}"
    kept_for = (live["metadata"].get("annotations") or {}).get(OWNER)
    if kept_for is not None and kept_for != owner_name(owner):
        return f"it is kept for {kept_for}"
    if kind.adopt or find_entry(live, manager) is not None:
        return ""
    return (
        "it exists, and neither was it made by this operator nor does it have an owner; "
        "delete or rename it, or let the operator adopt such objects"
    )


def _plan_deletions(
    owner: Object,
    unwanted: Sequence[Object],
    kinds: Mapping[GroupVersionKind, ChildKind],
    manager: str,
    closed: str,
) -> list[Step]:
    """Plan the end of what is no longer desired: the last stage first, each when it is its turn."""
    ours = find_children(owner, unwanted, manager=manager)
    last = max(map(stage_of, ours), default=0)
    steps = []
    for obj in ours:
        if obj["metadata"].get("deletionTimestamp"):
            continue
        action, reason = Action.DELETE, "it is no longer desired"
        if closed:
            action, reason = Action.HOLD, f"it goes at last: {closed}"
        elif stage_of(obj) < last:
            action, reason = Action.HOLD, "it goes when what came after it is gone"
        kind = kinds[GroupVersionKind.of(obj)]
        steps.append(Step(action, kind, NamespacedName.of(obj), reason, live=obj))
    return steps


def _is_applied_for(obj: Object, uid: str, manager: str) -> bool:
    """Tell whether a child was applied for this owner; what a reconcile created is not."""
    controller = controller_of(obj)
    return (
        controller is not None
        and controller.get("uid") == uid
        and find_entry(obj, manager) is not None
    )


def _is_about_another(error: Invalid) -> bool:
    """Tell whether an apply met another object than the one that was read.

    kube-apiserver answers so when the UID is another's, or when another owner came first.
    """
    causes = error.details.causes if error.details else ()
    return any(cause.field == "metadata.uid" for cause in causes) or (
        "Only one reference can have Controller set to true" in error.message
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
            case Action.WAIT | Action.HOLD | Action.AWAIT_KIND:
                pass
            case Action.REFUSE:
                raise NameTaken(f"{step.kind.resource.kind} {step.key}: {step.reason}")
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
    try:
        written = await ctx.apply(guard(obj, step.live), field_manager=manager)
    except UnicodeEncodeError:
        raise build_encoding_refusal(step) from None
    except Invalid as error:
        if _is_about_another(error):
            raise Conflict(f"{step.kind.resource.kind} {step.key} is another's now") from error
        if _may_recreate(step, error) and memory.recreate(uid, obj, ctx.clock.monotonic()):
            # Its end is an event: the next reconcile makes it anew.
            await _delete(ctx, step, outcome, "Recreating")
            return
        memory.refuse(uid, obj, step.live, error, ctx.clock.monotonic())
        raise
    memory.remember(uid, obj, written, manager)
    outcome.written[child_key(obj)] = written


def _may_recreate(step: Step, error: Invalid) -> bool:
    return (
        step.live is not None
        and step.kind.on_immutable == "recreate"
        and is_immutable_refusal(error)
    )


async def _delete(ctx: Context, step: Step, outcome: Outcome, reason: str) -> None:
    metadata = (step.live or {})["metadata"]
    key = (step.kind.resource.gvk, step.key)
    try:
        # At this very version it is still this owner's; a later one may have been released.
        await ctx.delete(
            step.kind.resource,
            step.key,
            uid=metadata["uid"],
            resource_version=metadata.get("resourceVersion"),
        )
    except NotFound:
        outcome.deleted.add(key)
        return
    outcome.deleted.add(key)
    _note(ctx, step, outcome, reason)


def _note(ctx: Context, step: Step, outcome: Outcome, reason: str) -> None:
    ctx.logger.info("%s", step)
    child = f"{step.kind.resource.kind} {step.key.name}"
    outcome.news.setdefault(reason, []).append(child)
