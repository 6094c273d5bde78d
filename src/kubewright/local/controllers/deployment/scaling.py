"""The arithmetic of a rollout: how many pods each ReplicaSet should wish for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.replica_set import ReplicaSet, active, total


def new_replicas(deployment: Deployment, everyone: Sequence[ReplicaSet], replicas: int) -> int:
    """Return how many pods the current ReplicaSet, now at `replicas`, may wish for.

    All ReplicaSets together never wish for more than `replicas + maxSurge`.
    """
    if replicas >= deployment.replicas or deployment.is_recreate:
        return deployment.replicas
    room = deployment.replicas + deployment.max_surge - total(everyone)
    return replicas + max(0, min(room, deployment.replicas - replicas))


def old_replicas(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> dict[str, int]:
    """Return the old ReplicaSets that shrink now, with the pods they may still wish for.

    Unhealthy pods go first, for they serve nobody. Of the others no more go than leaves
    `replicas - maxUnavailable` available, counting on no pod that is not available yet.
    """
    old = sorted(active(old), key=lambda replica_set: replica_set.created)
    everyone = [*old, new]
    surplus = total(everyone) - deployment.min_available - new.unavailable
    if surplus <= 0:
        return {}
    remaining = {replica_set.name: replica_set.replicas for replica_set in old}
    for replica_set in old:
        unhealthy = min(surplus, replica_set.unavailable)
        remaining[replica_set.name] -= unhealthy
        surplus -= unhealthy
    spare = sum(replica_set.available for replica_set in everyone) - deployment.min_available
    for replica_set in old:
        healthy = min(max(spare, 0), remaining[replica_set.name])
        remaining[replica_set.name] -= healthy
        spare -= healthy
    return {r.name: remaining[r.name] for r in old if remaining[r.name] != r.replicas}


def is_scaling(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> bool:
    """Tell whether the Deployment's replicas changed since an active ReplicaSet was scaled."""
    return any(
        replica_set.desired not in (None, deployment.replicas)
        for replica_set in active(replica_sets)
    )


def scaled_replicas(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> Iterator[tuple[ReplicaSet, int]]:
    """Yield what each ReplicaSet should wish for after the Deployment itself was scaled.

    One active ReplicaSet takes all. In the middle of a rolling update each keeps its share, so
    that a rollout that is stuck does not gain on the pods that work.
    """
    sole = _sole_active(new, old)
    if sole is not None:
        if sole.replicas != deployment.replicas:
            yield sole, deployment.replicas
    elif new is not None and _is_saturated(deployment, new):
        yield from ((replica_set, 0) for replica_set in active(old))
    elif not deployment.is_recreate:
        yield from _proportional(deployment, [*active([new] if new else []), *active(old)])


def _sole_active(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    candidates = active([*([new] if new else []), *old])
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return None
    return new or max(old, key=lambda replica_set: replica_set.created, default=None)


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    wished = deployment.replicas
    return new.desired == new.replicas == new.available == wished


def _proportional(
    deployment: Deployment, replica_sets: Sequence[ReplicaSet]
) -> Iterator[tuple[ReplicaSet, int]]:
    allowed = deployment.replicas + deployment.max_surge if deployment.replicas else 0
    to_add = allowed - total(replica_sets)
    # What rounding leaves over goes to the largest: when growing the newest of them, when
    # shrinking the oldest, so that the new template wins.
    ordered = sorted(replica_sets, key=lambda r: r.created, reverse=to_add > 0)
    ordered.sort(key=lambda r: r.replicas, reverse=True)
    added = 0
    shares = []
    for replica_set in ordered:
        share = _share(deployment, replica_set)
        left = to_add - added
        share = min(share, left) if to_add > 0 else max(share, left)
        shares.append(share if to_add else 0)
        added += shares[-1]
    for index, (replica_set, share) in enumerate(zip(ordered, shares, strict=True)):
        left_over = to_add - added if index == 0 else 0
        yield replica_set, max(0, replica_set.replicas + share + left_over)


def _share(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """Return how many pods a ReplicaSet gains, negative for losses, to keep its proportion."""
    if deployment.replicas == 0:
        return -replica_set.replicas
    base = replica_set.max_replicas or deployment.count("replicas")
    if base == 0:
        return 0
    size = replica_set.replicas * (deployment.replicas + deployment.max_surge)
    return (2 * size + base) // (2 * base) - replica_set.replicas
