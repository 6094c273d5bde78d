"""StatefulSets with volumes and DaemonSets, as kubectl's user sees them."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.acceptance.kept_cluster import KeptCluster
from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_daemon_set, build_stateful_set

pytestmark = pytest.mark.processes


def roll_out(kubectl: Kubectl, name: str) -> str:
    return kubectl("rollout", "status", name, "--timeout=90s")


def revisions(kubectl: Kubectl, name: str) -> list[str]:
    history = kubectl("rollout", "history", name)
    return [line.split()[0] for line in history.splitlines()[2:] if line]


def read_log(kubectl: Kubectl, pod: str) -> list[str]:
    return kubectl("exec", pod, "--", "cat", "/data/log").splitlines()


@pytest.mark.usefixtures("storage")
def test_a_stateful_set_keeps_what_its_pods_wrote(kubectl: Kubectl) -> None:
    kubectl.apply(build_stateful_set("db"))
    assert "complete" in roll_out(kubectl, "statefulset/db")
    assert read_log(kubectl, "db-1") == ["db-1 started"]

    kubectl("delete", "pod", "db-1")
    roll_out(kubectl, "statefulset/db")
    assert read_log(kubectl, "db-1") == ["db-1 started"] * 2

    kubectl("scale", "statefulset/db", "--replicas=1")
    eventually(
        lambda: kubectl("get", "pods", "-o", "name").split() == ["pod/db-0"], "one pod is left"
    )
    claims = kubectl("get", "pvc", "-o", "name").split()
    assert claims == [f"persistentvolumeclaim/data-db-{n}" for n in range(3)]
    kubectl("scale", "statefulset/db", "--replicas=3")
    roll_out(kubectl, "statefulset/db")
    assert read_log(kubectl, "db-1") == ["db-1 started"] * 3

    larger = json.dumps({"spec": {"resources": {"requests": {"storage": "20Mi"}}}})
    kubectl("patch", "pvc", "data-db-0", "-p", larger)
    capacity = "jsonpath={.status.capacity.storage}=20Mi"
    kubectl("wait", "pvc/data-db-0", f"--for={capacity}", "--timeout=60s")

    kubectl("delete", "statefulset", "db")
    kubectl("delete", "pvc", "--all")
    mine = f"jsonpath={{.items[?(@.spec.claimRef.namespace=='{kubectl.namespace}')].metadata.name}}"
    eventually(lambda: not kubectl("get", "pv", "-o", mine), "volumes go with their claims")


@pytest.mark.usefixtures("storage")
def test_a_stateful_set_is_restarted_and_rolled_back(kubectl: Kubectl) -> None:
    kubectl.apply(build_stateful_set("db", replicas=2))
    roll_out(kubectl, "statefulset/db")
    first = kubectl("get", "statefulset", "db", "-o", "jsonpath={.status.currentRevision}")

    assert "restarted" in kubectl("rollout", "restart", "statefulset/db")
    roll_out(kubectl, "statefulset/db")
    assert revisions(kubectl, "statefulset/db") == ["1", "2"]
    assert "restartedAt" in kubectl("rollout", "history", "statefulset/db", "--revision=2")

    assert "rolled back" in kubectl("rollout", "undo", "statefulset/db")
    roll_out(kubectl, "statefulset/db")
    assert revisions(kubectl, "statefulset/db") == ["2", "3"]
    current = "jsonpath={.status.currentRevision}"
    eventually(
        lambda: kubectl("get", "statefulset", "db", "-o", current) == first,
        "the first revision is the current one again",
    )


def test_a_daemon_set_is_restarted_and_rolled_back(kubectl: Kubectl) -> None:
    kubectl.apply(build_daemon_set("agent"))
    assert "successfully rolled out" in roll_out(kubectl, "daemonset/agent")

    assert "restarted" in kubectl("rollout", "restart", "daemonset/agent")
    roll_out(kubectl, "daemonset/agent")
    assert revisions(kubectl, "daemonset/agent") == ["1", "2"]
    assert "rolled back" in kubectl("rollout", "undo", "daemonset/agent")
    roll_out(kubectl, "daemonset/agent")
    assert revisions(kubectl, "daemonset/agent") == ["2", "3"]


def test_volumes_outlive_a_cluster_that_keeps_its_objects(kept: KeptCluster) -> None:
    kubectl = kept.up()
    kubectl.apply(build_stateful_set("db", replicas=1))
    roll_out(kubectl, "statefulset/db")
    kubectl("exec", "db-0", "--", "sh", "-c", "echo written >> /data/log")
    kept.down()

    kubectl = kept.up()
    # The status is as it was until the node has looked: what runs now has started again.
    eventually(
        lambda: (
            kubectl("exec", "db-0", "--", "cat", "/data/log", code=None).splitlines()
            == ["db-0 started", "written", "db-0 started"]
        ),
        "the pod runs again on what was written before",
    )
    default = yaml.safe_load(kubectl("get", "storageclass", "standard", "-o", "yaml"))
    assert default["provisioner"] == "kubewright.dev/local-volume"
