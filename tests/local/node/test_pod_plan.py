from __future__ import annotations

from tests.local.node.objects import RUNNING, build_pod, ended, records_of

from kubewright.local.node.containers import Waiting
from kubewright.local.node.pod_plan import Start, Stop, list_earlier, plan_pod

INIT = [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}]
SIDECAR = [{"name": "side", "image": "x", "restartPolicy": "Always"}]


def names(steps: list[Start | Stop]) -> list[str]:
    return [f"{type(step).__name__} {step.record.name}" for step in steps]


def test_starts_containers_of_a_new_pod() -> None:
    pod = build_pod()
    assert names(plan_pod(pod, records_of(pod), ending=False)) == ["Start c"]


def test_init_containers_start_one_after_the_other() -> None:
    pod = build_pod(initContainers=INIT)
    assert names(plan_pod(pod, records_of(pod), ending=False)) == ["Start i"]
    assert names(plan_pod(pod, records_of(pod, i=RUNNING), ending=False)) == []
    assert names(plan_pod(pod, records_of(pod, i=ended(0)), ending=False)) == ["Start j"]
    done = records_of(pod, i=ended(0), j=ended(0))
    assert names(plan_pod(pod, done, ending=False)) == ["Start c"]


def test_failed_init_container_is_tried_again_unless_never() -> None:
    pod = build_pod(initContainers=INIT)
    assert names(plan_pod(pod, records_of(pod, i=ended(1)), ending=False)) == ["Start i"]
    pod["spec"]["restartPolicy"] = "Never"
    assert plan_pod(pod, records_of(pod, i=ended(1)), ending=False) == []


def test_running_pod_needs_nothing() -> None:
    pod = build_pod()
    assert plan_pod(pod, records_of(pod, c=RUNNING), ending=False) == []


def test_ended_container_starts_again_by_the_policy() -> None:
    starts = {}
    for policy in ("Always", "OnFailure", "Never"):
        pod = build_pod(restartPolicy=policy)
        for code in (0, 1):
            steps = plan_pod(pod, records_of(pod, c=ended(code)), ending=False)
            starts[policy, code] = bool(steps)
    assert starts == {
        ("Always", 0): True,
        ("Always", 1): True,
        ("OnFailure", 0): False,
        ("OnFailure", 1): True,
        ("Never", 0): False,
        ("Never", 1): False,
    }


def test_container_in_back_off_is_to_be_started() -> None:
    pod = build_pod()
    records = records_of(pod, c=Waiting("CrashLoopBackOff"))
    records[0].last = ended(1)
    assert names(plan_pod(pod, records, ending=False)) == ["Start c"]


def test_sidecar_starts_first_and_is_stopped_after_the_containers() -> None:
    pod = build_pod(initContainers=SIDECAR, restartPolicy="Never")
    assert names(plan_pod(pod, records_of(pod), ending=False)) == ["Start side"]
    assert names(plan_pod(pod, records_of(pod, side=RUNNING), ending=False)) == ["Start c"]
    finished = records_of(pod, side=RUNNING, c=ended(0))
    assert names(plan_pod(pod, finished, ending=False)) == ["Stop side"]


def test_ending_stops_all_and_sidecars_know_who_ends_before_them() -> None:
    sidecars = [{"name": name, "image": "x", "restartPolicy": "Always"} for name in ("s", "t")]
    pod = build_pod(initContainers=sidecars)
    records = records_of(pod, s=RUNNING, t=RUNNING, c=RUNNING)
    assert names(plan_pod(pod, records, ending=True)) == ["Stop s", "Stop t", "Stop c"]
    earlier = [[other.name for other in list_earlier(r, records)] for r in records]
    assert earlier == [["c", "t"], ["c"], []]


def test_ephemeral_container_starts_once_also_before_the_pod_is_initialized() -> None:
    pod = build_pod(initContainers=INIT, ephemeralContainers=[{"name": "dbg", "image": "x"}])
    assert names(plan_pod(pod, records_of(pod, i=RUNNING), ending=False)) == ["Start dbg"]
    assert plan_pod(pod, records_of(pod, i=RUNNING, dbg=ended(0)), ending=False) == []


def test_finished_pod_stops_its_ephemeral_containers() -> None:
    debug = [{"name": "dbg", "image": "x"}]
    pod = build_pod(ephemeralContainers=debug, restartPolicy="Never")
    steps = plan_pod(pod, records_of(pod, c=ended(0), dbg=RUNNING), ending=False)
    assert names(steps) == ["Stop dbg"]


def test_ending_starts_nothing() -> None:
    pod = build_pod()
    assert plan_pod(pod, records_of(pod), ending=True) == []
