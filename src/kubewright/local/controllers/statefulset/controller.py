"""The StatefulSet controller: read, plan, write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError, NamespaceTerminating
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.history import claim_revisions
from kubewright.local.controllers.history.revision import find_surplus
from kubewright.local.controllers.history.revisions import (
    History,
    delete_revisions,
    ensure_revision,
)
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.local.controllers.replicaset.scale import next_availability, plan_batches
from kubewright.local.controllers.statefulset.plan import Situation, Turn, plan_stages
from kubewright.local.controllers.statefulset.stateful_set import StatefulSet, pod_revision
from kubewright.local.controllers.statefulset.status import build_status
from kubewright.local.controllers.statefulset.steps import apply_step
from kubewright.local.controllers.waking import Claimants
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "statefulset-controller"
HASH_LABEL = "controller.kubernetes.io/hash"


def build_statefulset_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that makes, updates and ends the pods of StatefulSets.

    Guarantee: never two pods of one ordinal. The name of a pod follows from its ordinal, so that a
    repeated creation is refused; a deletion names the very pod that was seen; and a pod that ended
    is replaced only when its name is free. Flow: claim pods and revisions, `plan_stages`, carry its
    steps out, write the status once.
    """
    claimants = Claimants(builtin.STATEFUL_SET)
    owners = _ClaimOwners()

    def set_up(cache: Cache) -> None:
        claimants.set_up(cache)
        owners.set_up(cache)

    return Controller(
        NAME,
        builtin.STATEFUL_SET,
        with_recorder(reconcile, recorder),
        owns=[builtin.POD, builtin.CONTROLLER_REVISION],
        watches=[
            Watch(builtin.POD, claimants.of_orphan),
            Watch(builtin.PERSISTENT_VOLUME_CLAIM, owners.of_claim),
        ],
        setup=set_up,
    )


async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring one StatefulSet a step further."""
    obj = ctx.get(builtin.STATEFUL_SET, key)
    if obj is None:
        return None
    stateful_set = StatefulSet(obj)
    pods = await _claim_pods(ctx, stateful_set)
    revisions = await claim_revisions(ctx, obj, builtin.STATEFUL_SET)
    history = await ensure_revision(ctx, obj, revisions, hash_label=HASH_LABEL)
    now = ctx.clock.now()
    situation = Situation(
        stateful_set,
        current=history.find(stateful_set.status.get("currentRevision")) or history.update,
        update=history.update,
        pods=tuple(pods),
        find_claim=lambda name: ctx.get(
            builtin.PERSISTENT_VOLUME_CLAIM, NamespacedName(key.namespace, name)
        ),
        now=now,
    )
    error = await _apply(ctx, situation)
    status = build_status(situation, history.collisions)
    if status != stateful_set.status:
        await ctx.replace({**obj, "status": status}, subresource="status")
    if error is not None:
        raise error
    await _truncate(ctx, situation, history)
    return Result(after=next_availability(obj, pods, now))


async def _claim_pods(ctx: Context, stateful_set: StatefulSet) -> list[Object]:
    obj = stateful_set.obj
    selector = LabelSelector.of(obj["spec"].get("selector"))
    candidates = find_candidates(ctx.store(builtin.POD), obj, selector)
    claim = plan_ownership(obj, selector, candidates, is_member=stateful_set.is_member)
    return await apply_ownership(ctx, obj, builtin.STATEFUL_SET, builtin.POD, claim)


async def _apply(ctx: Context, situation: Situation) -> KubewrightError | None:
    """Carry the stages out; the first error ends it and is returned."""
    for turns in plan_stages(situation):
        error = await _apply_stage(ctx, situation, turns)
        if error is not None:
            return None if isinstance(error, NamespaceTerminating) else error
    return None


async def _apply_stage(
    ctx: Context, situation: Situation, turns: Sequence[Turn]
) -> KubewrightError | None:
    """Take turns in batches that double, so that a refusal costs few requests."""
    is_parallel = situation.stateful_set.is_parallel
    begin = 0
    for size in plan_batches(len(turns)) if is_parallel else [1] * len(turns):
        batch = turns[begin : begin + size]
        begin += size
        results = await asyncio.gather(*(_take_turn(ctx, situation, turn) for turn in batch))
        if error := next((error for error in results if error is not None), None):
            return error
    return None


async def _take_turn(ctx: Context, situation: Situation, turn: Turn) -> KubewrightError | None:
    try:
        for step in turn:
            await apply_step(ctx, situation.stateful_set, step)
    except KubewrightError as error:
        return error
    return None


async def _truncate(ctx: Context, situation: Situation, history: History) -> None:
    live = {situation.current.name, situation.update.name}
    live.update(pod_revision(pod) for pod in situation.pods)
    surplus = find_surplus(history.revisions, live, situation.stateful_set.history_limit)
    await delete_revisions(ctx, surplus)


class _ClaimOwners:
    """Finds the StatefulSets whose pods a claim is for: that it came or went may unblock one."""

    def __init__(self) -> None:
        self._stateful_sets: Store | None = None

    def set_up(self, cache: Cache) -> None:
        self._stateful_sets = cache.store(builtin.STATEFUL_SET)

    def of_claim(self, claim: Entry) -> Iterable[NamespacedName]:
        if self._stateful_sets is None:
            return []
        return [
            entry.key
            for entry in self._stateful_sets.list(namespace=claim.meta.namespace)
            if f"-{entry.meta.name}-" in claim.meta.name
            and StatefulSet(entry.object()).has_claim(claim.meta.name)
        ]
