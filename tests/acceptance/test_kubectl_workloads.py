"""What kubectl does with workloads that run."""

from __future__ import annotations

import pytest

from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_deployment

pytestmark = pytest.mark.processes


def test_rollout_from_first_to_undone(kubectl: Kubectl) -> None:
    manifest = build_deployment("web")
    kubectl.apply(manifest)
    status = kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    assert 'deployment "web" successfully rolled out' in status

    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "memcached:1.6.18"
    kubectl.apply(manifest)
    kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]

    assert "rolled back" in kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    pods = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    eventually(
        lambda: (
            set(
                kubectl(
                    "get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"
                ).split()
            )
            == {"memcached:1.6"}
        ),
        f"only pods of the first revision, not {pods}",
    )


def test_scale_and_wait(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("sized", replicas=1))

    assert "scaled" in kubectl("scale", "deployment/sized", "--replicas=3")
    waited = kubectl(
        *("wait", "deployment/sized", "--for=jsonpath={.status.readyReplicas}=3"), "--timeout=90s"
    )
    assert "condition met" in waited
    assert "scaled" in kubectl("scale", "deployment/sized", "--replicas=1")
    kubectl("wait", "deployment/sized", "--for=jsonpath={.status.replicas}=1", "--timeout=90s")
    eventually(
        lambda: len(kubectl("get", "pods", "-o", "name").split()) == 1, "one pod after scale down"
    )


def test_scale_respects_the_current_size(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("guarded", replicas=1))

    refused = kubectl(
        *("scale", "deployment/guarded", "--current-replicas=5", "--replicas=2"), code=1
    )

    assert "Expected replicas to be 5, was 1" in refused


def test_wait_for_condition_and_for_delete(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("awaited", replicas=1))
    text = kubectl("wait", "--for=condition=Available", "deployment/awaited", "--timeout=90s")
    assert "condition met" in text

    kubectl("delete", "deployment", "awaited", "--wait=false")

    kubectl("wait", "--for=delete", "deployment/awaited", "--timeout=60s")
    eventually(
        lambda: not kubectl("get", "rs,pods", "-l", "app=awaited", "-o", "name"),
        "replica sets and pods collected after their deployment",
    )


def test_logs_come_from_the_container(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("loud", replicas=1))
    kubectl("rollout", "status", "deployment/loud", "--timeout=90s")

    logs = kubectl("logs", "deployment/loud", "--tail=100")

    if not kubectl.cluster.simulated:
        assert "slab class" in logs  # what memcached -vv prints first


def test_pods_show_their_state_and_address(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("shown", replicas=1))
    kubectl("rollout", "status", "deployment/shown", "--timeout=90s")

    header, row = kubectl("get", "pods", "-o", "wide").splitlines()[:2]

    assert header.split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    cells = row.split()
    assert (cells[1], cells[2], cells[3]) == ("1/1", "Running", "0")
    assert cells[5].count(".") == 3
    text = kubectl("describe", "pods")
    assert "Successfully assigned" in text
    assert "Readiness:" in text
