"""A ReplicaSet as a rollout sees it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubewright.api.resource import Object

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


class ReplicaSet(msgspec.Struct, frozen=True):
    """Numbers of one ReplicaSet, with the object that they were read from.

    Counts of a status that is older than the spec are capped at `replicas`: what will be deleted
    counts neither as available nor as ready, so a stale status never makes room to delete more.
    """

    obj: Object
    replicas: int

    @classmethod
    def of(cls, obj: Object) -> ReplicaSet:
        """Read a decoded ReplicaSet; `spec.replicas` defaults to 1 as in the API."""
        replicas = obj["spec"].get("replicas")
        return cls(obj, 1 if replicas is None else int(replicas))

    def with_replicas(self, replicas: int) -> ReplicaSet:
        """Return the ReplicaSet with another wish and the same status."""
        return ReplicaSet(
            {**self.obj, "spec": {**self.obj["spec"], "replicas": replicas}}, replicas
        )

    def with_annotations(self, annotations: Object) -> ReplicaSet:
        """Return the ReplicaSet with these annotations and no others."""
        metadata = {**self.obj["metadata"], "annotations": annotations}
        return ReplicaSet({**self.obj, "metadata": metadata}, self.replicas)

    def with_min_ready_seconds(self, seconds: int) -> ReplicaSet:
        """Return the ReplicaSet with this `minReadySeconds`, which is absent where it is 0."""
        spec = {k: v for k, v in self.obj["spec"].items() if k != "minReadySeconds"}
        if seconds:
            spec["minReadySeconds"] = seconds
        return ReplicaSet({**self.obj, "spec": spec}, self.replicas)

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def created(self) -> tuple[str, str]:
        """When it was created, with its name to break ties; sorts oldest first."""
        return (self.obj["metadata"].get("creationTimestamp") or "9999", self.name)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations; to be changed through `with_annotations` only."""
        return self.obj["metadata"].get("annotations") or {}

    @property
    def revision(self) -> int:
        """The revision, 0 where it is missing or no number."""
        return _number(self.annotations.get(REVISION))

    @property
    def desired(self) -> int | None:
        """The Deployment's replicas when this ReplicaSet was last scaled."""
        text = self.annotations.get(DESIRED_REPLICAS)
        return None if text is None else _number(text)

    @property
    def max_replicas(self) -> int:
        """The Deployment's replicas and surge when this ReplicaSet was last scaled, or 0."""
        return _number(self.annotations.get(MAX_REPLICAS))

    @property
    def current(self) -> int:
        """The pods that there were when the status was written."""
        return self.status("replicas")

    @property
    def available(self) -> int:
        """The available pods that will be there when the wish is met."""
        return min(self.status("availableReplicas"), self.replicas)

    @property
    def unavailable(self) -> int:
        """The wished pods that are not available."""
        return self.replicas - self.available

    def status(self, name: str) -> int:
        """Return a count of the status as it was written."""
        return int((self.obj.get("status") or {}).get(name) or 0)


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    """Add up the wished replicas."""
    return sum(replica_set.replicas for replica_set in replica_sets)


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return those that wish for pods."""
    return [replica_set for replica_set in replica_sets if replica_set.replicas > 0]


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
