"""A rolling update in a small model of the cluster, in every order that hypothesis thinks of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.controllers.objects import NOW, build_deployment, build_pod, build_template

from kubewright.api.resource import Object
from kubewright.local.controllers.deployment.deployment import Deployment
from kubewright.local.controllers.deployment.rollout import (
    CreateReplicaSet,
    DeleteReplicaSet,
    plan_rollout,
)
from kubewright.local.controllers.replicaset.ranking import pods_to_delete


@dataclass
class Cluster:
    """A Deployment, its ReplicaSets and their pods; statuses are as old as the last look."""

    deployment: Object
    replica_sets: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, dict[str, bool]] = field(default_factory=dict)
    made: int = 0

    def look_at_deployment(self) -> bool:
        """Run the Deployment's controller once; tell whether it did anything."""
        seen = copy.deepcopy(list(self.replica_sets.values()))
        rollout = plan_rollout(copy.deepcopy(self.deployment), seen, now=NOW)
        for step in rollout.steps:
            if isinstance(step, DeleteReplicaSet):
                del self.replica_sets[step.replica_set.name]
                assert not self.pods.pop(step.replica_set.name)
                continue
            made = isinstance(step, CreateReplicaSet)
            after = step.replica_set if isinstance(step, CreateReplicaSet) else step.after
            obj = copy.deepcopy(after.obj)
            if made:
                self.made += 1
                obj["metadata"]["creationTimestamp"] = f"2026-01-01T00:{self.made:02}:00Z"
                self.pods[after.name] = {}
            self.replica_sets[after.name] = obj
        changed = bool(rollout.steps) or rollout.status != self.deployment["status"]
        self.deployment["status"] = rollout.status
        return changed

    def look_at_replica_set(self, name: str) -> bool:
        """Run the ReplicaSet's controller once: pods first, then the status."""
        pods, wished = self.pods[name], self.replica_sets[name]["spec"]["replicas"]
        before = dict(self.replica_sets[name].get("status") or {}), dict(pods)
        surplus = len(pods) - wished
        if surplus > 0:
            candidates = [build_pod(pod, ready=ready) for pod, ready in pods.items()]
            for pod in pods_to_delete(candidates, (), surplus, NOW):
                del pods[pod["metadata"]["name"]]
        for _ in range(-surplus):
            self.made += 1
            pods[f"{name}-{self.made}"] = False
        ready = sum(pods.values())
        status = {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        self.replica_sets[name]["status"] = {**status, "observedGeneration": 1}
        return before != (self.replica_sets[name]["status"], dict(pods))

    def set_ready(self, number: int, ready: bool) -> None:
        every = [(name, pod) for name, pods in sorted(self.pods.items()) for pod in sorted(pods)]
        if every:
            name, pod = every[number % len(every)]
            self.pods[name][pod] = ready

    def wished(self) -> int:
        return sum(r["spec"]["replicas"] for r in self.replica_sets.values())

    def available(self) -> int:
        return sum(sum(pods.values()) for pods in self.pods.values())

    def settle(self) -> None:
        """Let everybody look and every pod become ready until nothing happens any more."""
        for _ in range(200):
            for pods in self.pods.values():
                pods.update(dict.fromkeys(pods, True))
            looked = [self.look_at_replica_set(name) for name in list(self.replica_sets)]
            if not any([self.look_at_deployment(), *looked]):
                return
        raise AssertionError("the rollout never ends")


amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda n: f"{n}%"))
# The Deployment's controller looks most often: it must bear to see statuses that lag behind.
kinds = ["deployment"] * 4 + ["replica set"] * 2 + ["ready"] * 2 + ["crash", "template"]
moves = st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 7)), max_size=50)


def start(replicas: int, surge: int | str, unavailable: int | str) -> Cluster:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster = Cluster(build_deployment(replicas, strategy=strategy))
    cluster.settle()
    return cluster


def run(cluster: Cluster, script: list[tuple[str, int]], check: Callable[[Cluster], None]) -> None:
    for move, number in [("template", 2), *script]:
        names = sorted(cluster.replica_sets)
        if move == "deployment":
            cluster.look_at_deployment()
        elif move == "replica set" and names:
            cluster.look_at_replica_set(names[number % len(names)])
        elif move == "template":
            cluster.deployment["spec"]["template"] = build_template(str(number))
            cluster.deployment["metadata"]["generation"] += 1
        else:
            cluster.set_ready(number, move == "ready")
        check(cluster)


def is_rolled_out(cluster: Cluster) -> bool:
    wished = Deployment(cluster.deployment).replicas
    status = cluster.deployment["status"]
    counts = ("replicas", "updatedReplicas", "availableReplicas")
    return all(status.get(name, 0) == wished for name in counts)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 8), amounts, amounts, moves)
def test_never_wishes_for_more_than_the_surge_and_always_ends(
    replicas: int, surge: int | str, unavailable: int | str, script: list[tuple[str, int]]
) -> None:
    cluster = start(replicas, surge, unavailable)
    most = replicas + Deployment(cluster.deployment).max_surge

    def check(cluster: Cluster) -> None:
        assert cluster.wished() <= most

    run(cluster, script, check)
    cluster.settle()
    assert is_rolled_out(cluster)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 8), amounts, amounts, moves)
def test_never_takes_away_pods_that_must_be_available(
    replicas: int, surge: int | str, unavailable: int | str, script: list[tuple[str, int]]
) -> None:
    cluster = start(replicas, surge, unavailable)
    least = Deployment(cluster.deployment).min_available

    def check(cluster: Cluster) -> None:
        assert cluster.available() >= least

    run(cluster, [(move, n) for move, n in script if move != "crash"], check)
