"""The decision of a Deployment: which ReplicaSets to make, change and delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.local.controllers.deployment import scaling
from kubewright.local.controllers.deployment import status as statuses
from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.replica_set import (
    REVISION,
    ReplicaSet,
    active,
)
from kubewright.local.controllers.deployment.revision import (
    build_replica_set,
    build_replicas_annotations,
    build_revision_annotations,
    find_new_replica_set,
)


class CreateReplicaSet(msgspec.Struct, frozen=True):
    """Create the ReplicaSet of the current template."""

    replica_set: ReplicaSet


class UpdateReplicaSet(msgspec.Struct, frozen=True):
    """Write a ReplicaSet's wish, annotations or minReadySeconds."""

    before: ReplicaSet
    after: ReplicaSet


class DeleteReplicaSet(msgspec.Struct, frozen=True):
    """Delete a ReplicaSet beyond the history limit."""

    replica_set: ReplicaSet


Step: TypeAlias = CreateReplicaSet | UpdateReplicaSet | DeleteReplicaSet


class Rollout(msgspec.Struct):
    """What one look at a Deployment decides.

    `steps` come first, in order; then `status` and the annotation `revision` are written together.
    `after` says when the progress deadline must be looked at.
    """

    steps: list[Step] = []
    status: Object = {}
    revision: str | None = None
    after: timedelta | None = None


def plan_rollout(
    deployment: Object,
    replica_sets: Sequence[Object],
    *,
    has_old_pods: bool = False,
    now: datetime,
) -> Rollout:
    """Decide the next steps of a Deployment from its ReplicaSets.

    The same state gives the same steps, and a state in which the rollout is complete gives none.
    During a rolling update the ReplicaSets together never wish for more than `replicas + maxSurge`
    pods, and no step takes available pods below `replicas - maxUnavailable`.

    Args:
        deployment: The decoded Deployment, as the API server defaulted it.
        replica_sets: The ReplicaSets that it controls.
        has_old_pods: Whether pods of old ReplicaSets still exist, also terminating ones; only the
            Recreate strategy asks.
        now: The time for conditions and the progress deadline.
    """
    planner = _Planner(Deployment(deployment), [ReplicaSet.of(r) for r in replica_sets], now)
    return planner.plan(has_old_pods)


class _Planner:
    """Plays the steps on a model, so that the status is that of the state after them."""

    def __init__(
        self, deployment: Deployment, replica_sets: Sequence[ReplicaSet], now: datetime
    ) -> None:
        self.deployment = deployment
        self.now = now
        self.rollout = Rollout(revision=deployment.revision)
        self.conditions: list[Object] = list(deployment.status.get("conditions") or ())
        new = find_new_replica_set(deployment, replica_sets)
        self.new_name = new.name if new else None
        self.model = {replica_set.name: replica_set for replica_set in replica_sets}
        self.before = dict(self.model)

    @property
    def new(self) -> ReplicaSet | None:
        return self.model[self.new_name] if self.new_name else None

    @property
    def old(self) -> list[ReplicaSet]:
        return [r for name, r in self.model.items() if name != self.new_name]

    def plan(self, has_old_pods: bool) -> Rollout:
        deployment = self.deployment
        if deployment.obj["metadata"].get("deletionTimestamp") is not None:
            return self._finish(rolls=False)
        self.conditions = statuses.pause_conditions(deployment, self.conditions, self.now)
        self._keep_revision()
        if deployment.is_paused or scaling.is_scaling(deployment, list(self.model.values())):
            for replica_set, replicas in scaling.scaled_replicas(deployment, self.new, self.old):
                self._scale(replica_set, replicas)
            if deployment.is_paused:
                self._clean_up()
            return self._finish(rolls=False)
        if deployment.is_recreate:
            self._recreate(has_old_pods)
        else:
            self._roll()
        return self._finish(rolls=True)

    def _keep_revision(self) -> None:
        """Bring the current ReplicaSet's annotations and minReadySeconds up to date."""
        new = self.new
        if new is None:
            return
        annotations = build_revision_annotations(
            self.deployment, new.annotations, self._next_revision()
        )
        kept = new.with_annotations(annotations)
        seconds = self.deployment.min_ready_seconds
        if seconds != int(new.obj["spec"].get("minReadySeconds") or 0):
            kept = kept.with_min_ready_seconds(seconds)
        self.model[new.name] = kept
        self.rollout.revision = annotations[REVISION]
        if find_condition(self.conditions, statuses.PROGRESSING) is None:
            self._report("FoundNewReplicaSet", f'Found new replica set "{new.name}"')

    def _next_revision(self) -> int:
        return max((replica_set.revision for replica_set in self.old), default=0) + 1

    def _roll(self) -> None:
        self._ensure_new()
        new = self.new
        if new is None:
            return
        replicas = scaling.new_replicas(self.deployment, list(self.model.values()), new.replicas)
        if replicas != new.replicas:
            self._scale(new, replicas)
            return
        # What was made in this very look has no pods yet; old ones wait for the next look.
        shrinking = scaling.old_replicas(self.deployment, new, self.old)
        for name, replicas in shrinking.items():
            self._scale(self.model[name], replicas)
        if not shrinking:
            self._clean_up_when_complete()

    def _recreate(self, has_old_pods: bool) -> None:
        old = active(self.old)
        for replica_set in old:
            self._scale(replica_set, 0)
        if old or has_old_pods or any(replica_set.current for replica_set in self.old):
            return
        self._ensure_new()
        if self.new is not None and self.new.replicas != self.deployment.replicas:
            self._scale(self.new, self.deployment.replicas)
        self._clean_up_when_complete()

    def _ensure_new(self) -> None:
        if self.new is not None:
            return
        replicas = scaling.new_replicas(self.deployment, list(self.model.values()), 0)
        revision = self._next_revision()
        new = ReplicaSet.of(build_replica_set(self.deployment, replicas, revision))
        self.rollout.steps.append(CreateReplicaSet(new))
        self.model[new.name] = self.before[new.name] = new
        self.new_name = new.name
        self.rollout.revision = str(revision)
        self._report("NewReplicaSetCreated", f'Created new replica set "{new.name}"')

    def _report(self, reason: str, message: str) -> None:
        if self.deployment.progress_deadline is not None:
            condition = statuses.build_condition(
                statuses.PROGRESSING, "True", reason, message, self.now
            )
            self.conditions = statuses.set_condition(self.conditions, condition)

    def _scale(self, replica_set: ReplicaSet, replicas: int) -> None:
        annotations = {**replica_set.annotations, **build_replicas_annotations(self.deployment)}
        scaled = replica_set.with_annotations(annotations).with_replicas(replicas)
        self.model[replica_set.name] = scaled

    def _clean_up_when_complete(self) -> None:
        if statuses.is_complete(self.deployment, self.deployment.status):
            self._clean_up()

    def _clean_up(self) -> None:
        limit = self.deployment.history_limit
        if limit is None:
            return
        alive = [r for r in self.old if r.obj["metadata"].get("deletionTimestamp") is None]
        alive.sort(key=lambda replica_set: (replica_set.revision, replica_set.created))
        for replica_set in alive[: max(0, len(alive) - limit)]:
            if _is_spent(replica_set):
                self.rollout.steps.append(DeleteReplicaSet(replica_set))

    def _finish(self, *, rolls: bool) -> Rollout:
        for name, after in self.model.items():
            if after is not self.before[name] and after.obj != self.before[name].obj:
                self.rollout.steps.append(UpdateReplicaSet(self.before[name], after))
        everyone, new = list(self.model.values()), self.new
        status = statuses.build_status(self.deployment, self.conditions, everyone, new, self.now)
        if rolls and new is not None and statuses.awaits_report(new, self.now):
            self.rollout.status = statuses.hold_counts(self.deployment, self.conditions)
            self.rollout.after = statuses.REPORT_PATIENCE
            return self.rollout
        if rolls:
            conditions = statuses.progress_conditions(self.deployment, status, new, self.now)
            status["conditions"] = statuses.failure_conditions(conditions, everyone, new)
            self.rollout.after = statuses.deadline_in(self.deployment, status, self.now)
        self.rollout.status = status
        return self.rollout


def _is_spent(replica_set: ReplicaSet) -> bool:
    """Tell whether an old ReplicaSet has neither pods nor the wish for any, and knows it."""
    generation = int(replica_set.obj["metadata"].get("generation") or 0)
    observed = replica_set.status("observedGeneration") >= generation
    return replica_set.replicas == 0 and replica_set.current == 0 and observed
