"""Revisions: which ReplicaSet is the current template's, and what its annotations say."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.deployment import template_hash
from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.replica_set import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    ReplicaSet,
)

# What describes the Deployment itself, or is set for each ReplicaSet, is not copied to it.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
_HISTORY_LENGTH = 2000


def find_new_replica_set(
    deployment: Deployment, replica_sets: Sequence[ReplicaSet]
) -> ReplicaSet | None:
    """Return the ReplicaSet of the current template: the oldest, should there be several."""
    template = deployment.spec["template"]
    same = [
        replica_set
        for replica_set in replica_sets
        if template_hash.is_same_template(replica_set.obj["spec"]["template"], template)
    ]
    return min(same, key=lambda replica_set: replica_set.created, default=None)


def build_replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """Build the annotations that proportional scaling starts from."""
    return {
        DESIRED_REPLICAS: str(deployment.replicas),
        MAX_REPLICAS: str(deployment.replicas + deployment.max_surge),
    }


def build_revision_annotations(
    deployment: Deployment, before: dict[str, str], revision: int
) -> dict[str, str]:
    """Build the annotations of the current ReplicaSet.

    The Deployment's are copied and those it lost are kept. A revision only grows; the one that is
    replaced goes to the history, which loses its oldest entries when it becomes too long.
    """
    copied = {k: v for k, v in deployment.annotations.items() if k not in _NOT_COPIED}
    annotations = {**before, **copied}
    old = before.get(REVISION)
    if _number(old) >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if old:
        history = [entry for entry in before.get(REVISION_HISTORY, "").split(",") if entry]
        history.append(old)
        while len(history) > 1 and len(",".join(history)) > _HISTORY_LENGTH:
            history.pop(0)
        annotations[REVISION_HISTORY] = ",".join(history)
    return annotations


def build_replica_set(deployment: Deployment, replicas: int, revision: int) -> Object:
    """Build the ReplicaSet of the current template."""
    template = deployment.spec["template"]
    collisions = deployment.count("collisionCount")
    hashed = {template_hash.LABEL: template_hash.build_template_hash(template, collisions)}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **hashed}
    selector = deployment.spec["selector"]
    match_labels = {**(selector.get("matchLabels") or {}), **hashed}
    spec: Object = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": match_labels},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    if deployment.min_ready_seconds:
        spec["minReadySeconds"] = deployment.min_ready_seconds
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name}-{hashed[template_hash.LABEL]}",
            "namespace": deployment.obj["metadata"]["namespace"],
            "labels": labels,
            "annotations": {
                **build_revision_annotations(deployment, {}, revision),
                **build_replicas_annotations(deployment),
            },
            "ownerReferences": [build_owner_reference(deployment.obj)],
        },
        "spec": spec,
    }


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
