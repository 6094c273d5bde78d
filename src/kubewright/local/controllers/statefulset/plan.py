"""What to do next for a StatefulSet. Pure.

Everything follows from what is there: nothing is remembered between two looks, and a step that was
carried out already is not planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from kubewright.api.resource import Object
from kubewright.local.controllers.history import Revision
from kubewright.local.controllers.pod import (
    is_pod_available,
    is_pod_finished,
    is_pod_ready,
    is_pod_terminating,
)
from kubewright.local.controllers.statefulset.claims import (
    build_claims,
    has_conflict,
    is_stale,
    plan_owners,
)
from kubewright.local.controllers.statefulset.pod import (
    build_pod,
    has_identity,
    restore_identity,
)
from kubewright.local.controllers.statefulset.stateful_set import (
    StatefulSet,
    pod_ordinal,
    pod_revision,
)


class CreateClaims(msgspec.Struct, frozen=True):
    """Create claims that a pod waits for."""

    pod: Object
    claims: tuple[Object, ...]


class CreatePod(msgspec.Struct, frozen=True):
    """Create a pod, and its missing claims before it."""

    pod: Object
    claims: tuple[Object, ...]


class Refuse(msgspec.Struct, frozen=True):
    """Say why a pod cannot be made: what changes that brings the next look."""

    pod: Object
    reason: str


class UpdatePod(msgspec.Struct, frozen=True):
    """Give a pod and its claims what belongs to its name; `after` is None when only claims lack."""

    pod: Object
    after: Object | None
    claims: tuple[Object, ...]
    conflicts: tuple[str, ...] = ()


class UpdateClaims(msgspec.Struct, frozen=True):
    """Write who owns the claims of a pod; `conflicts` are those that somebody else manages."""

    pod: Object
    claims: tuple[Object, ...]
    conflicts: tuple[str, ...] = ()


class DeletePod(msgspec.Struct, frozen=True):
    """Delete a pod."""

    pod: Object


Step: TypeAlias = CreateClaims | CreatePod | Refuse | UpdatePod | UpdateClaims | DeletePod

Turn: TypeAlias = tuple[Step, ...]
"""The steps for one pod, to be taken one after the other."""


class Situation(msgspec.Struct, frozen=True):
    """What is there: the StatefulSet, its two revisions, its pods and claims."""

    stateful_set: StatefulSet
    current: Revision
    update: Revision
    pods: tuple[Object, ...]
    find_claim: Callable[[str], Object | None]
    now: datetime

    def is_available(self, pod: Object | None) -> bool:
        """Tell whether a pod is there, ready for long enough, and stays."""
        if pod is None or is_pod_terminating(pod):
            return False
        return is_pod_available(pod, self.stateful_set.min_ready_seconds, self.now)

    @property
    def members(self) -> list[tuple[int, Object | None]]:
        """The wished ordinals with their pods."""
        present = {pod_ordinal(pod): pod for pod in self.pods}
        return [(ordinal, present.get(ordinal)) for ordinal in self.stateful_set.ordinals]

    @property
    def condemned(self) -> list[Object]:
        """The pods of other ordinals, the highest first."""
        wished = self.stateful_set.ordinals
        numbered = [(pod_ordinal(pod), pod) for pod in self.pods]
        surplus = [(n, pod) for n, pod in numbered if n is not None and n not in wished]
        return [pod for _, pod in sorted(surplus, key=lambda item: -item[0])]


def plan_stages(situation: Situation) -> Iterator[tuple[Turn, ...]]:
    """Yield stages of turns: each begins when the one before it went well.

    Ordered pods: a pod that is not available ends the plan, so that its successors wait, scaling
    down waits for health, and an update waits for both. Parallel pods wait for nothing but what
    `maxUnavailable` says of an update.
    """
    stateful_set = situation.stateful_set
    if stateful_set.is_deleting:
        return
    turns: list[Turn] = []
    for ordinal, pod in situation.members:
        steps, goes_on = _plan_member(situation, ordinal, pod)
        turns += [tuple(steps)] if steps else []
        if not goes_on and not stateful_set.is_parallel:
            yield tuple(turns)
            return
    yield tuple(turns)
    owners = (plan_claim_owners(situation, pod) for pod in situation.condemned)
    yield tuple((step,) for step in owners if step is not None)
    doomed = _plan_scale_down(situation)
    yield tuple((DeletePod(pod),) for pod in doomed)
    if not stateful_set.is_on_delete and (stateful_set.is_parallel or not situation.condemned):
        deleted = {
            step.pod["metadata"]["uid"]
            for turn in turns
            for step in turn
            if isinstance(step, DeletePod)
        }
        outdated = plan_update(situation)
        yield tuple((DeletePod(p),) for p in outdated if p["metadata"]["uid"] not in deleted)


def _plan_member(
    situation: Situation, ordinal: int, pod: Object | None
) -> tuple[Sequence[Step], bool]:
    """Plan for one wished pod; tell whether its successors may be looked at."""
    if pod is None:
        return _plan_creation(situation, ordinal), False
    if is_pod_finished(pod):
        # It failed, or was ended from outside: its name must be free before it can start anew.
        return ([] if is_pod_terminating(pod) else [DeletePod(pod)]), False
    steps: list[Step] = []
    if (pod.get("status") or {}).get("phase") == "Pending":
        steps += _plan_missing_claims(situation, ordinal, pod)
    is_running = (pod.get("status") or {}).get("phase") == "Running" and is_pod_ready(pod)
    if not situation.stateful_set.is_parallel and not (is_running and situation.is_available(pod)):
        return steps, False
    if (update := _plan_identity(situation, pod)) is not None:
        steps.append(update)
    return steps, True


def _plan_creation(situation: Situation, ordinal: int) -> list[Step]:
    stateful_set = situation.stateful_set
    # Those below the partition keep the old template, also when they are made anew.
    is_kept = not stateful_set.is_on_delete and (
        ordinal < stateful_set.start + stateful_set.partition
    )
    revision = situation.current if is_kept else situation.update
    pod = build_pod(stateful_set, revision, ordinal)
    claims = build_claims(stateful_set, ordinal)
    missing = []
    for claim in claims:
        found = situation.find_claim(claim["metadata"]["name"])
        if found is None:
            missing.append(claim)
        elif is_stale(stateful_set, found, pod["metadata"]["name"]):
            return []
        elif found["metadata"].get("deletionTimestamp"):
            return [Refuse(pod, f"pvc {claim['metadata']['name']} is being deleted")]
    return [CreatePod(pod, tuple(missing))]


def _plan_missing_claims(situation: Situation, ordinal: int, pod: Object) -> list[Step]:
    missing = tuple(
        claim
        for claim in build_claims(situation.stateful_set, ordinal)
        if situation.find_claim(claim["metadata"]["name"]) is None
    )
    owners = plan_claim_owners(situation, pod)
    steps: list[Step] = [CreateClaims(pod, missing)] if missing else []
    return steps if owners is None else [*steps, owners]


def _plan_identity(situation: Situation, pod: Object) -> UpdatePod | None:
    stateful_set = situation.stateful_set
    owners = plan_claim_owners(situation, pod)
    claims = () if owners is None else owners.claims
    conflicts = () if owners is None else owners.conflicts
    if has_identity(stateful_set, pod):
        return UpdatePod(pod, None, claims, conflicts) if owners is not None else None
    return UpdatePod(pod, restore_identity(stateful_set, pod), claims, conflicts)


def plan_claim_owners(situation: Situation, pod: Object) -> UpdateClaims | None:
    """Plan which claims of a pod get other owners; None when they have the right ones."""
    stateful_set, ordinal = situation.stateful_set, pod_ordinal(pod)
    changed, conflicts = [], []
    for template in stateful_set.claim_templates:
        claim = situation.find_claim(stateful_set.claim_name(template, ordinal or 0))
        if claim is None or (owners := plan_owners(stateful_set, pod, claim)) is None:
            continue
        if has_conflict(stateful_set, pod, claim):
            conflicts.append(claim["metadata"]["name"])
        changed.append({**claim, "metadata": {**claim["metadata"], "ownerReferences": owners}})
    return UpdateClaims(pod, tuple(changed), tuple(conflicts)) if changed else None


def _plan_scale_down(situation: Situation) -> Sequence[Object]:
    """Return the surplus pods to delete: all of them, or the highest when the others are well."""
    condemned = situation.condemned
    if situation.stateful_set.is_parallel:
        return [pod for pod in condemned if not is_pod_terminating(pod)]
    if not condemned or is_pod_terminating(condemned[0]):
        return []
    highest = condemned[0]
    lower = (pod for pod in reversed(condemned) if not situation.is_available(pod))
    first_unavailable = next(lower, None)
    is_running = (highest.get("status") or {}).get("phase") == "Running"
    is_well = is_running and situation.is_available(highest)
    return [highest] if is_well or highest is first_unavailable else []


def plan_update(situation: Situation) -> list[Object]:
    """Return the pods to delete so that they come back with the new template.

    Those that nobody can use anyhow go first when pods are parallel: they cost no availability.
    """
    stateful_set = situation.stateful_set
    pods = [pod for _, pod in situation.members]
    budget = stateful_set.max_unavailable - sum(not situation.is_available(pod) for pod in pods)
    outdated = [
        pod
        for pod in reversed(pods[stateful_set.partition :])
        if pod is not None
        and pod_revision(pod) != situation.update.name
        and not is_pod_terminating(pod)
    ]
    if not stateful_set.is_parallel:
        return outdated[: max(budget, 0)]
    useless = [pod for pod in outdated if not situation.is_available(pod)]
    usable = [pod for pod in outdated if situation.is_available(pod)]
    return [*useless, *usable[: max(budget, 0)]]
