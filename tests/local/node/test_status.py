from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.local.node.objects import NOW_TEXT, RUNNING, build_pod, ended, records_of

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, State, Waiting, build_records
from kubewright.local.node.status import (
    PodFacts,
    build_status,
    compute_phase,
    settle_records,
)

FACTS = PodFacts(NOW_TEXT, "10.244.0.1", "10.244.0.2", has_sandbox=True)
TWO = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
INIT = [{"name": "i", "image": "x"}]


def status_of(
    pod: Object, records: Sequence[ContainerRecord], before: Sequence[Object] = ()
) -> Object:
    return build_status(pod, records, FACTS, now=NOW_TEXT, before=before)


def verdict(status: Object, type: str) -> tuple[str, str | None, str | None]:
    condition = find_condition(status["conditions"], type)
    assert condition is not None
    return condition["status"], condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("policy", "states", "phase"),
    [
        ("Always", (RUNNING, RUNNING), "Running"),
        ("Always", (RUNNING, Waiting("ImagePullBackOff")), "Pending"),
        ("Always", (ended(1), RUNNING), "Running"),
        ("Always", (ended(0), ended(0)), "Running"),
        ("Never", (ended(0), ended(0)), "Succeeded"),
        ("Never", (ended(0), ended(3)), "Failed"),
        ("OnFailure", (ended(0), ended(3)), "Running"),
        ("OnFailure", (ended(0), ended(0)), "Succeeded"),
    ],
)
def test_phase_follows_containers_and_policy(
    policy: str, states: tuple[State, State], phase: str
) -> None:
    pod = build_pod(containers=TWO, restartPolicy=policy)
    assert compute_phase(pod, records_of(pod, a=states[0], b=states[1])) == phase


def test_pod_in_back_off_is_running() -> None:
    pod = build_pod()
    records = records_of(pod, c=Waiting("CrashLoopBackOff"))
    records[0].last = ended(1)
    assert compute_phase(pod, records) == "Running"


def test_deleted_pod_ends_by_its_exit_codes_also_with_policy_always() -> None:
    pod = build_pod(metadata={"deletionTimestamp": NOW_TEXT})
    assert compute_phase(pod, records_of(pod, c=ended(0))) == "Succeeded"
    assert compute_phase(pod, records_of(pod, c=ended(137))) == "Failed"


def test_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    pod = build_pod(initContainers=INIT, restartPolicy="Never")
    records = records_of(pod, i=ended(6))
    status = status_of(pod, records)
    assert status["phase"] == "Failed"
    assert verdict(status, "Ready") == ("False", "PodFailed", None)
    assert verdict(status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [i]",
    )


def test_ready_pod_has_all_conditions_true() -> None:
    pod = build_pod()
    status = status_of(pod, records_of(pod, c=RUNNING))
    for type in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        assert verdict(status, type) == ("True", None, None)
    assert status["podIPs"] == [{"ip": "10.244.0.2"}]


def test_unready_containers_are_named() -> None:
    pod = build_pod(containers=TWO)
    records = records_of(pod, a=RUNNING, b=RUNNING)
    records[1].ready = False
    status = status_of(pod, records)
    expected = ("False", "ContainersNotReady", "containers with unready status: [b]")
    assert verdict(status, "Ready") == expected
    assert verdict(status, "ContainersReady") == expected


def test_completed_pod_says_so() -> None:
    pod = build_pod(restartPolicy="Never")
    status = status_of(pod, records_of(pod, c=ended(0)))
    assert verdict(status, "Initialized") == ("True", "PodCompleted", None)
    assert verdict(status, "Ready") == ("False", "PodCompleted", None)


def test_readiness_gate_holds_a_pod_back() -> None:
    pod = build_pod(readinessGates=[{"conditionType": "example.com/gate"}])
    records = records_of(pod, c=RUNNING)
    assert verdict(status_of(pod, records), "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "example.com/gate" does not exist.',
    )
    pod["status"] = {"conditions": [{"type": "example.com/gate", "status": "True"}]}
    assert verdict(status_of(pod, records), "Ready")[0] == "True"


def test_transition_time_stays_while_the_status_does() -> None:
    pod = build_pod()
    records = records_of(pod, c=RUNNING)
    before = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {
            "type": "ContainersReady",
            "status": "False",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        },
    ]
    conditions = status_of(pod, records, before)["conditions"]
    times = {entry["type"]: entry["lastTransitionTime"] for entry in conditions}
    assert times["Ready"] == "2020-01-01T00:00:00Z"
    assert times["ContainersReady"] == NOW_TEXT


def test_container_before_its_startup_probe_is_neither_started_nor_ready() -> None:
    pod = build_pod()
    records = records_of(pod, c=RUNNING)
    records[0].started = False
    (entry,) = status_of(pod, records)["containerStatuses"]
    assert (entry["started"], entry["ready"]) == (False, False)


def test_container_statuses_are_sorted_by_name() -> None:
    containers = [{"name": name, "image": "x"} for name in ("z", "a")]
    pod = build_pod(containers=containers)
    names = [entry["name"] for entry in status_of(pod, build_records(pod))["containerStatuses"]]
    assert names == ["a", "z"]


def test_completed_init_container_is_ready_and_not_started() -> None:
    pod = build_pod(initContainers=INIT)
    (entry,) = status_of(pod, records_of(pod, i=ended(0)))["initContainerStatuses"]
    assert (entry["ready"], entry["started"]) == (True, False)


def test_settled_containers_of_a_deleted_pod_in_back_off_ended_as_they_ended_last() -> None:
    pod = build_pod(metadata={"deletionTimestamp": NOW_TEXT})
    records = records_of(pod, c=Waiting("CrashLoopBackOff"))
    records[0].last = ended(3)
    settle_records(pod, records)
    assert records[0].state == ended(3)
    assert records[0].last is None


def test_settled_containers_behind_a_failed_init_container_keep_waiting() -> None:
    pod = build_pod(initContainers=[*INIT, {"name": "j", "image": "x"}], restartPolicy="Never")
    records = records_of(pod, i=ended(6))
    settle_records(pod, records)
    assert [isinstance(record.state, Waiting) for record in records] == [False, True, True]


def test_settled_pod_that_never_began_has_failed() -> None:
    pod = build_pod(initContainers=INIT, metadata={"deletionTimestamp": NOW_TEXT})
    records = records_of(pod)
    settle_records(pod, records)
    facts = PodFacts(NOW_TEXT, "10.244.0.1", is_settled=True)
    status = build_status(pod, records, facts, now=NOW_TEXT)
    assert status["phase"] == "Failed"
    assert "terminated" in status["initContainerStatuses"][0]["state"]
    assert "waiting" in status["containerStatuses"][0]["state"]


def test_restart_of_all_containers_is_a_condition_where_a_rule_may_ask_for_it() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]
    own = {"restartPolicy": "Never", "restartPolicyRules": rules}
    pod = build_pod(containers=[{"name": "c", "image": "x", **own}])
    facts = PodFacts(NOW_TEXT, "10.244.0.1", "10.244.0.2", has_sandbox=True, is_restarting_all=True)
    status = build_status(pod, records_of(pod, c=RUNNING), facts, now=NOW_TEXT)
    reason, message = "RestartAllContainersStarted", "container exited with restart policy rule"
    assert verdict(status, "AllContainersRestarting") == ("True", reason, message)
    assert (
        find_condition(status_of(build_pod(), [])["conditions"], "AllContainersRestarting") is None
    )
