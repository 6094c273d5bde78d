"""What kubectl does with budgets, usage and autoscalers."""

from __future__ import annotations

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_deployment

pytestmark = pytest.mark.processes


def test_drain_waits_for_the_budget(kubectl: Kubectl) -> None:
    kubectl.apply(build_deployment("kept"))
    kubectl("rollout", "status", "deployment/kept", "--timeout=90s")
    kubectl("create", "poddisruptionbudget", "kept", "--selector=app=kept", "--min-available=1")
    allowed = "--for=jsonpath={.status.disruptionsAllowed}=1"
    kubectl("wait", "poddisruptionbudget/kept", allowed, "--timeout=30s")
    pods = kubectl.get("pods", "-l", "app=kept")["items"]
    node = pods[0]["spec"]["nodeName"]
    drain = ("drain", node, "--pod-selector=app=kept", "--ignore-daemonsets", "--timeout=8s")
    try:
        # The replacement of the first pod finds no node: the second one has to stay.
        refused = kubectl(*drain, code=1)
        assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
        names = {pod["metadata"]["name"] for pod in pods}
        running = kubectl.get("pods", "-l", "app=kept", "--field-selector=status.phase=Running")
        left = [p for p in running["items"] if p["metadata"]["name"] in names]
        assert len([p for p in left if "deletionTimestamp" not in p["metadata"]]) == 1
    finally:
        kubectl("uncordon", node)
    kubectl("rollout", "status", "deployment/kept", "--timeout=90s")
    kubectl("wait", "poddisruptionbudget/kept", allowed, "--timeout=30s")


def test_top_tells_the_usage_of_nodes_and_pods(kubectl: Kubectl, cluster: Cluster) -> None:
    if cluster.is_real:
        pytest.skip("a real control plane comes without a metrics server")
    kubectl.apply(build_deployment("used", replicas=1))
    kubectl("rollout", "status", "deployment/used", "--timeout=90s")
    eventually(lambda: "used-" in kubectl("top", "pods", code=None), "usage of the pod")
    lines = kubectl("top", "pods", "--containers").splitlines()
    assert lines[0].split() == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert lines[1].split()[1] == "memcached"
    eventually(lambda: "%" in kubectl("top", "nodes", "--no-headers", code=None), "a node's usage")
    table = kubectl("get", "pods.metrics.k8s.io").splitlines()
    assert table[0].split() == ["NAME", "CPU", "MEMORY", "WINDOW"]


def test_an_autoscaler_follows_the_load(admin: Kubectl, cluster: Cluster) -> None:
    if cluster.is_real:
        pytest.skip("a real control plane comes without a metrics server")
    deployment = build_deployment("busy")
    # What an autoscaler sets, an apply must not set back.
    del deployment["spec"]["replicas"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    # Busy for a part of the time, so that other tests have a processor.
    burst = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2"
    container["args"] = ["sh", "-c", f"memcached & while true; do {burst}; done"]
    container["resources"] = {"requests": {"cpu": "10m"}}
    admin.apply(deployment)
    admin("rollout", "status", "deployment/busy", "--timeout=90s")
    admin("autoscale", "deployment", "busy", "--min=1", "--max=2", "--cpu-percent=50")
    scaled = "--for=jsonpath={.status.desiredReplicas}=2"
    admin("wait", "hpa/busy", scaled, "--timeout=110s")
    rules = '{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}'
    admin("patch", "hpa/busy", "--type=merge", "-p", rules)
    container["args"] = ["memcached"]
    admin.apply(deployment)
    scaled = "--for=jsonpath={.status.desiredReplicas}=1"
    admin("wait", "hpa/busy", scaled, "--timeout=110s")
    told = admin(
        "get", "events", "--field-selector=involvedObject.name=busy,reason=SuccessfulRescale"
    )
    assert "New size: 1; reason: All metrics below target" in told
