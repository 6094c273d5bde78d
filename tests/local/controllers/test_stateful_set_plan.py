"""What a StatefulSet does next, from what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.controllers.objects import NOW, build_pod, build_stateful_set, build_template

from kubewright.api.resource import Object
from kubewright.local.controllers.history import Revision
from kubewright.local.controllers.history.revision import build_data
from kubewright.local.controllers.statefulset.plan import (
    CreateClaims,
    CreatePod,
    DeletePod,
    Refuse,
    Situation,
    UpdateClaims,
    UpdatePod,
    plan_stages,
)
from kubewright.local.controllers.statefulset.stateful_set import StatefulSet, pod_ordinal
from kubewright.local.controllers.statefulset.status import build_status

OLD, NEW = "web-old", "web-new"
ROLLING = "RollingUpdate"


def build_revision(name: str, version: str) -> Revision:
    data = build_data(build_template(version))
    return Revision({"metadata": {"name": name}, "data": data, "revision": 1})


def member(ordinal: int, revision: str = NEW, **fields: Any) -> Object:
    labels = {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": f"web-{ordinal}",
        "controller-revision-hash": revision,
    }
    return build_pod(f"web-{ordinal}", labels=labels, **fields)


def situation(
    pods: Sequence[Object], claims: dict[str, Object] | None = None, **spec: Any
) -> Situation:
    return Situation(
        StatefulSet(build_stateful_set(**spec)),
        build_revision(OLD, "1"),
        build_revision(NEW, "2"),
        tuple(pods),
        (claims or {}).get,
        NOW,
    )


def plan(pods: Sequence[Object], **fields: Any) -> list[str]:
    """Return the plan in words, such as `create web-0`."""
    words = {
        CreatePod: "create",
        CreateClaims: "claims for",
        Refuse: "refuse",
        UpdatePod: "update",
        UpdateClaims: "owners of",
        DeletePod: "delete",
    }
    stages = plan_stages(situation(pods, **fields))
    steps = [step for turns in stages for turn in turns for step in turn]
    return [f"{words[type(step)]} {step.pod['metadata']['name']}" for step in steps]


def rolling(**fields: Any) -> Object:
    return {"type": ROLLING, "rollingUpdate": {"partition": 0, **fields}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ["create web-0"]),
        ([member(0)], ["create web-1"]),
        ([member(0, ready=False)], []),
        ([member(0, phase="Pending", ready=False)], []),
        ([member(0, deleting=True)], []),
        ([member(0), member(2)], ["create web-1"]),
        ([member(0), member(1), member(2)], []),
        ([member(0, phase="Failed", ready=False), member(1)], ["delete web-0"]),
        ([member(0, phase="Succeeded", ready=False)], ["delete web-0"]),
        ([member(0, phase="Failed", ready=False, deleting=True)], []),
    ],
)
def test_ordered_pods_wait_for_those_before_them(pods: list[Object], expected: list[str]) -> None:
    assert plan(pods) == expected


def test_parallel_pods_wait_for_nobody() -> None:
    pods = [member(1, ready=False), member(3), member(4, deleting=True)]
    parallel = {"podManagementPolicy": "Parallel"}
    assert plan(pods, **parallel) == ["create web-0", "create web-2", "delete web-3"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([member(n) for n in range(5)], ["delete web-4"]),
        ([*(member(n) for n in range(4)), member(4, deleting=True)], []),
        ([member(0, ready=False), *(member(n) for n in (1, 2, 3))], []),
        # A surplus pod that is not well goes only when it is what keeps the others waiting.
        ([*(member(n) for n in range(3)), member(3, ready=False), member(4, ready=False)], []),
        ([*(member(n) for n in range(3)), member(3), member(4, ready=False)], ["delete web-4"]),
    ],
)
def test_surplus_pods_go_one_by_one_while_the_others_are_well(
    pods: list[Object], expected: list[str]
) -> None:
    assert plan(pods) == expected


def test_the_start_ordinal_moves_what_is_wished() -> None:
    pods = [member(0), member(1), member(2)]
    assert plan(pods, ordinals={"start": 1}) == ["create web-3"]
    assert plan([*pods, member(3)], ordinals={"start": 1}) == ["delete web-0"]


@pytest.mark.parametrize(
    ("revisions", "strategy", "expected"),
    [
        ([OLD, OLD, OLD], rolling(), ["delete web-2"]),
        ([OLD, OLD, NEW], rolling(), ["delete web-1"]),
        ([OLD, OLD, OLD], rolling(partition=2), ["delete web-2"]),
        ([OLD, OLD, NEW], rolling(partition=2), []),
        ([OLD, OLD, OLD], rolling(partition=5), []),
        ([OLD, OLD, OLD], rolling(maxUnavailable=2), ["delete web-2", "delete web-1"]),
        ([OLD, OLD, OLD], rolling(maxUnavailable="20%"), ["delete web-2"]),
        ([OLD, OLD, OLD], rolling(maxUnavailable="70%"), ["delete web-2", "delete web-1"]),
        ([OLD, OLD, OLD], {"type": "OnDelete"}, []),
    ],
)
def test_an_update_takes_the_highest_ordinal_first(
    revisions: list[str], strategy: Object, expected: list[str]
) -> None:
    pods = [member(ordinal, revision) for ordinal, revision in enumerate(revisions)]
    assert plan(pods, updateStrategy=strategy) == expected


def test_a_parallel_update_takes_what_nobody_can_use_before_what_is_used() -> None:
    pods = [member(0, OLD, ready=False), member(1, OLD), member(2, OLD)]
    parallel = {"podManagementPolicy": "Parallel"}
    assert plan(pods, **parallel) == ["delete web-0"]
    strategy = rolling(maxUnavailable=2)
    assert plan(pods, updateStrategy=strategy, **parallel) == ["delete web-0", "delete web-2"]
    pods[0] = member(0, NEW, ready=False)
    assert plan(pods, **parallel) == []


def test_a_pod_is_available_when_it_was_ready_for_long_enough() -> None:
    pods = [member(0, ready_for=5), member(1)]
    assert plan(pods, minReadySeconds=10) == []
    assert plan(pods, minReadySeconds=5) == ["create web-2"]


def test_a_stateful_set_that_is_deleted_does_nothing() -> None:
    given = situation([])
    given.stateful_set.obj["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert list(plan_stages(given)) == []


def test_pods_below_the_partition_come_back_with_the_old_template() -> None:
    for ordinal, version in ((0, "1"), (1, "2")):
        pods = [member(n) for n in range(2) if n != ordinal]
        stages = plan_stages(situation(pods, replicas=2, updateStrategy=rolling(partition=1)))
        (step,) = (step for turns in stages for turn in turns for step in turn)
        assert isinstance(step, CreatePod)
        labels = step.pod["metadata"]["labels"]
        assert labels["v"] == version
        assert labels["controller-revision-hash"] == (OLD if ordinal == 0 else NEW)


def template(name: str = "data", **metadata: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def claim(name: str, *owners: Object, **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": [*owners]} | metadata
    }


SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s"}
POD = {"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "uid-web-1"}
CONTROLS = {"controller": True, "blockOwnerDeletion": True}
CLAIMED: dict[str, Any] = {"volumeClaimTemplates": [template(labels={"kind": "disk"})]}


def test_a_pod_gets_its_claims_before_it_is_made() -> None:
    (turns,) = list(plan_stages(situation([], **CLAIMED)))
    ((step,),) = turns
    assert isinstance(step, CreatePod)
    (made,) = step.claims
    assert made["metadata"]["name"] == "data-web-0"
    assert made["metadata"]["labels"] == {"kind": "disk", "app": "web"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    assert step.pod["spec"]["volumes"] == [volume]
    assert (step.pod["spec"]["hostname"], step.pod["spec"]["subdomain"]) == ("web-0", "web")


def test_no_pod_is_made_on_a_claim_that_is_about_to_go() -> None:
    ending = claim("data-web-0", deletionTimestamp="2026-01-01T12:00:00Z")
    assert plan([], claims={"data-web-0": ending}, **CLAIMED) == ["refuse web-0"]
    earlier = claim("data-web-0", {**POD, "name": "web-0", "uid": "uid-of-before", **CONTROLS})
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}
    assert plan([], claims={"data-web-0": earlier}, **CLAIMED, **policy) == []


def test_a_pending_pod_gets_a_claim_that_went_missing() -> None:
    pending = member(0, phase="Pending", ready=False)
    assert plan([pending], **CLAIMED) == ["claims for web-0"]


@pytest.mark.parametrize(
    ("deleted", "scaled", "ordinal", "before", "after"),
    [
        ("Retain", "Retain", 1, [], None),
        ("Retain", "Retain", 1, [{**SET, **CONTROLS}], []),
        ("Delete", "Retain", 1, [], ["StatefulSet"]),
        ("Delete", "Retain", 1, [{**SET, **CONTROLS}], None),
        ("Delete", "Retain", 1, [SET], ["StatefulSet"]),
        ("Retain", "Delete", 1, [], ["Pod"]),
        ("Delete", "Delete", 1, [{**SET, **CONTROLS}], ["Pod"]),
        ("Retain", "Delete", 0, [{**POD, "name": "web-0", "uid": "uid-web-0", **CONTROLS}], []),
        # What refers to an earlier object of the name belongs to the garbage collector.
        ("Delete", "Retain", 1, [{**SET, "uid": "before", **CONTROLS}], None),
        # Beside another controller the policy does not apply.
        ("Delete", "Retain", 1, [{"kind": "Other", "uid": "o", "controller": True}], None),
    ],
)
def test_the_owners_of_a_claim_follow_the_retention_policy(
    deleted: str, scaled: str, ordinal: int, before: list[Object], after: list[str] | None
) -> None:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    spec: dict[str, Any] = {"replicas": 1, "persistentVolumeClaimRetentionPolicy": policy}
    name = f"data-web-{ordinal}"
    pods = [member(n) for n in range(ordinal + 1)]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    pods[ordinal]["spec"]["volumes"] = [volume]
    given = situation(
        pods[ordinal:],
        {name: claim(name, *before)},
        **spec,
        **CLAIMED,
        podManagementPolicy="Parallel",
    )
    steps = [step for turns in plan_stages(given) for turn in turns for step in turn]
    written = [step for step in steps if isinstance(step, UpdateClaims | UpdatePod)]
    if after is None:
        assert written == []
        return
    (step,) = written
    (changed,) = step.claims
    owners = changed["metadata"]["ownerReferences"]
    assert [owner["kind"] for owner in owners] == after
    assert all(owner["controller"] for owner in owners)


def test_the_status_is_complete_when_every_pod_is_new_and_ready() -> None:
    def status(*pods: Object) -> Object:
        return build_status(situation(pods, replicas=2), 0)

    halfway = status(member(0, OLD), member(1, ready=False))
    assert halfway == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "currentReplicas": 1,
        "updatedReplicas": 1,
        "currentRevision": OLD,
        "updateRevision": NEW,
        "collisionCount": 0,
    }
    complete = status(member(0), member(1))
    assert (complete["currentRevision"], complete["currentReplicas"]) == (NEW, 2)
    ending = status(member(0), member(1, deleting=True))
    assert (ending["replicas"], ending["updatedReplicas"]) == (2, 1)
    assert ending["currentRevision"] == OLD


moves = st.lists(st.tuples(st.sampled_from(["look", "ready", "fail", "gone"]), st.integers(0, 5)))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 4), st.integers(1, 3), st.booleans(), moves)
def test_an_ordered_update_keeps_its_order_and_always_ends(
    replicas: int, unavailable: int, is_scaled: bool, script: list[tuple[str, int]]
) -> None:
    """In a small model of a cluster: pods become ready, fail and go at any time."""
    pods = {n: member(n, OLD) for n in range(replicas + is_scaled)}
    strategy = rolling(maxUnavailable=unavailable)
    spec: dict[str, Any] = {"replicas": replicas, "updateStrategy": strategy}

    def look() -> int:
        taken = 0
        for turns in plan_stages(situation(list(pods.values()), **spec)):
            for step in (step for turn in turns for step in turn):
                taken += 1
                ordinal = pod_ordinal(step.pod)
                assert ordinal is not None
                if isinstance(step, CreatePod):
                    lower = [pods.get(n) for n in range(ordinal)]
                    assert all(pod is not None and is_ready(pod) for pod in lower)
                    assert ordinal not in pods
                    pods[ordinal] = member(ordinal, NEW, ready=False, phase="Pending")
                else:
                    pods[ordinal]["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
        return taken

    def move(kind: str, ordinal: int) -> None:
        if kind == "look":
            look()
        elif ordinal in pods and kind == "ready":
            revision = pods[ordinal]["metadata"]["labels"]["controller-revision-hash"]
            if not pods[ordinal]["metadata"].get("deletionTimestamp"):
                pods[ordinal] = member(ordinal, revision)
        elif ordinal in pods and kind == "fail":
            pods[ordinal]["status"] = {"phase": "Failed"}
        elif ordinal in pods and pods[ordinal]["metadata"].get("deletionTimestamp"):
            del pods[ordinal]

    for kind, ordinal in script:
        move(kind, ordinal)
    for _ in range(60):
        for ordinal in list(pods):
            if pods[ordinal]["status"].get("phase") != "Failed":
                move("ready", ordinal)
            move("gone", ordinal)
        if not look():
            break
    assert sorted(pods) == list(range(replicas))
    names = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods.values()}
    assert names <= {NEW}


def is_ready(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")
