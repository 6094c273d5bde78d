"""What kubectl does with work that ends: Jobs, CronJobs, and pods that are told to go."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_deployment

pytestmark = pytest.mark.processes

WAIT = "--timeout=90s"


@pytest.fixture(autouse=True)
def account(kubectl: Kubectl) -> None:
    """Pods can be made once the namespace has its account."""
    eventually(
        lambda: "default" in kubectl("get", "serviceaccount", "-o", "name"),
        "a service account for pods in the new namespace",
    )


def needs_processes(kubectl: Kubectl) -> None:
    """Skip where no container runs."""
    if kubectl.cluster.simulated:
        pytest.skip("needs processes in pods")


def build_job(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """Build a Job that runs a script in a shell."""
    container = {"name": "c", "image": "busybox:1.35", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": {"spec": pod}},
    }


def test_a_job_completes_and_its_output_is_kept(kubectl: Kubectl) -> None:
    needs_processes(kubectl)
    kubectl.apply(build_job("sum", "echo $((6 * 7))"))

    assert "condition met" in kubectl("wait", "job/sum", "--for=condition=complete", WAIT)

    assert kubectl("logs", "job/sum") == "42\n"
    row = kubectl("get", "job", "sum", "--no-headers").split()
    assert row[:3] == ["sum", "Complete", "1/1"]
    pods = kubectl("get", "pods", "--no-headers").split()
    assert pods[1:3] == ["0/1", "Completed"]


def test_a_job_that_fails_too_often_says_so(kubectl: Kubectl) -> None:
    needs_processes(kubectl)
    kubectl.apply(build_job("bad", "exit 3", backoffLimit=1))

    assert "condition met" in kubectl("wait", "job/bad", "--for=condition=failed", WAIT)

    status = kubectl.get("job", "bad")["status"]
    assert status["failed"] == 2
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "Job has reached the specified backoff limit" in kubectl("describe", "job", "bad")


def test_an_indexed_job_gives_each_pod_its_number(kubectl: Kubectl) -> None:
    needs_processes(kubectl)
    script = "echo index $JOB_COMPLETION_INDEX on $HOSTNAME"
    job = build_job("many", script, completions=3, parallelism=2, completionMode="Indexed")
    kubectl.apply(job)

    kubectl("wait", "job/many", "--for=condition=complete", WAIT)

    lines = kubectl("logs", "-l", "job-name=many", "--tail=-1").splitlines()
    assert sorted(lines) == [f"index {number} on many-{number}" for number in range(3)]
    assert kubectl.get("job", "many")["status"]["completedIndexes"] == "0-2"


def test_a_cron_job_runs_by_hand_and_by_the_clock(kubectl: Kubectl) -> None:
    needs_processes(kubectl)
    kubectl(
        "create", "cronjob", "tick", "--image=busybox:1.35", "--schedule=0 0 1 1 *", "--", "date"
    )

    kubectl("create", "job", "--from=cronjob/tick", "by-hand")
    kubectl("wait", "job/by-hand", "--for=condition=complete", WAIT)
    job = kubectl.get("job", "by-hand")
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert job["metadata"]["ownerReferences"][0]["name"] == "tick"

    kubectl("patch", "cronjob", "tick", "-p", '{"spec":{"schedule":"* * * * *"}}')
    begun = datetime.now(UTC)
    waited = ("--for=jsonpath={.status.lastScheduleTime}", "--timeout=100s")
    kubectl("wait", "cronjob/tick", *waited)
    last = kubectl.get("cronjob", "tick")["status"]["lastScheduleTime"]
    assert abs(datetime.fromisoformat(last) - begun) < timedelta(seconds=100)
    name = f"tick-{int(datetime.fromisoformat(last).timestamp()) // 60}"
    kubectl("wait", f"job/{name}", "--for=condition=complete", WAIT)


def test_drain_leaves_what_a_budget_protects_until_it_can_go(kubectl: Kubectl) -> None:
    """The only node takes no new pods, so that the last pod of the budget has to stay."""
    kubectl.apply(build_deployment("kept", replicas=1))
    kubectl("rollout", "status", "deployment/kept", WAIT)
    kubectl("create", "poddisruptionbudget", "kept", "--selector=app=kept", "--min-available=1")
    eventually(
        lambda: kubectl.get("pdb", "kept").get("status", {}).get("currentHealthy") == 1,
        "a budget that knows its pod",
    )
    node = kubectl("get", "pod", "-l", "app=kept", "-o=jsonpath={.items[0].spec.nodeName}")
    selector = ("--pod-selector=app=kept", "--ignore-daemonsets", "--delete-emptydir-data")
    try:
        refused = kubectl("drain", node, *selector, "--timeout=4s", code=1)
        assert "Cannot evict pod as it would violate the pod's disruption budget" in refused
        assert "SchedulingDisabled" in kubectl("get", "node", node)

        kubectl("delete", "pdb", "kept")
        assert "drained" in kubectl("drain", node, *selector, "--timeout=60s")
        pending = "-o=jsonpath={.items[*].status.phase}"
        eventually(
            lambda: kubectl("get", "pods", "-l", "app=kept", pending) == "Pending",
            "a new pod that no node takes",
        )
    finally:
        kubectl("uncordon", node)
    kubectl("rollout", "status", "deployment/kept", WAIT)


def test_logs_by_time_by_lines_of_the_run_before_and_as_they_come(kubectl: Kubectl) -> None:
    needs_processes(kubectl)
    script = "echo one; echo two; echo three; sleep 2; echo four; test -f /data/again || "
    script += "{ touch /data/again; exit 1; }; sleep 600"
    mount = {"name": "data", "mountPath": "/data"}
    container = {
        "name": "c",
        "image": "busybox:1.35",
        "command": ["sh", "-c", script],
        "volumeMounts": [mount],
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    pod = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talk"}, "spec": pod},
    )
    restarts = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
    kubectl("wait", "pod/talk", restarts, WAIT)
    eventually(lambda: kubectl("logs", "talk").endswith("four\n"), "all lines")

    words = ["one", "two", "three", "four"]
    assert kubectl("logs", "talk").split() == words
    assert kubectl("logs", "talk", "--previous").split() == words
    assert kubectl("logs", "talk", "--tail=2").split() == words[2:]
    assert kubectl("logs", "talk", "--limit-bytes=6") == "one\ntw"
    assert kubectl("logs", "talk", "--since=1h").split() == words
    stamped = kubectl("logs", "talk", "--timestamps").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \w+$", line) for line in stamped)
    third, fourth = (line.split()[0] for line in stamped[2:])
    assert kubectl("logs", "talk", f"--since-time={fourth}").split() == words[3:]
    assert third < fourth
    prefixed = kubectl("logs", "talk", "--all-containers", "--prefix").splitlines()
    assert prefixed[0] == "[pod/talk/c] one"
    began = time.monotonic()
    kubectl("delete", "pod", "talk", "--wait=false")
    assert kubectl("logs", "talk", "-f", code=None) != ""
    assert time.monotonic() - began < 60
