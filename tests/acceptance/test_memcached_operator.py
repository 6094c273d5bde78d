"""The memcached operator, end to end: what its user does, and what it survives."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.conditions import is_condition_true
from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT, start_operator
from tests.acceptance.kubectl import Kubectl, eventually
from tests.acceptance.manifests import build_memcached

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SAMPLE = ROOT / "operators/memcached/samples/cache_v1alpha1_memcached.yaml"


def wait_ready(kubectl: Kubectl, name: str, seconds: int = 120) -> Any:
    kubectl("wait", "--for=condition=Ready", f"memcached/{name}", f"--timeout={seconds}s")
    return kubectl.get("memcached", name)


def children(kubectl: Kubectl, name: str) -> str:
    selector = f"app.kubernetes.io/instance={name}"
    return kubectl("get", "deploy,rs,pods,svc", "-l", selector, "-o", "name")


def test_the_sample_becomes_a_ready_pool(admin: Kubectl, operator: None) -> None:
    admin("apply", "-f", str(SAMPLE))

    pool = wait_ready(admin, "memcached-sample")

    pods = admin("get", "pods", "-o", "name").split()
    assert len(pods) == 3
    assert sorted(f"pod/{name}" for name in pool["status"]["nodes"]) == sorted(pods)
    assert pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
    assert (pool["status"]["replicas"], pool["status"]["readyReplicas"]) == (3, 3)
    assert not is_condition_true(pool, "Reconciling")
    assert not is_condition_true(pool, "Stalled")
    assert admin.get("service", "memcached-sample")["spec"]["clusterIP"] == "None"
    header, row = admin("get", "memcached").splitlines()
    assert header.split() == ["NAME", "SIZE", "NODES", "VERSION", "READY", "AGE"]
    assert row.split()[:5] == ["memcached-sample", "3", "3", "1.6.9", "True"]


def test_every_pod_answers_on_its_own_address(
    admin: Kubectl, operator: None, cluster: Cluster
) -> None:
    if cluster.simulated:
        pytest.skip("pods are simulated on this machine: no process answers")
    admin.apply(build_memcached("asked", size=2))
    wait_ready(admin, "asked")
    addresses = admin("get", "pods", "-o", "jsonpath={.items[*].status.podIP}").split()

    assert len(set(addresses)) == 2
    for number, address in enumerate(addresses):
        assert f"v{number}" in ask(cluster, address, f"v{number}")


def ask(cluster: Cluster, address: str, value: str) -> str:
    """Set and get a key, inside the pods' network."""
    script = [sys.executable, str(ROOT / "demo/memcached_key.py"), address, "k", value]
    if not cluster.is_real:
        enter = [str(Path(sys.prefix) / "bin/kubewright"), "local", "exec", "--name", "acceptance"]
        script = [*enter, "--", *script]
    return subprocess.run(
        script,
        env=cluster.environment or None,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_scale_through_the_subresource(admin: Kubectl, operator: None) -> None:
    admin.apply(build_memcached("scaled", size=1))
    wait_ready(admin, "scaled")

    assert "scaled" in admin("scale", "memcached/scaled", "--replicas=3")
    admin("wait", "memcached/scaled", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=90s")

    assert admin.get("memcached", "scaled")["spec"]["size"] == 3
    assert len(admin.get("memcached", "scaled")["status"]["nodes"]) == 3


def test_a_new_version_rolls_out(admin: Kubectl, operator: None) -> None:
    admin.apply(build_memcached("updated", size=2))
    wait_ready(admin, "updated")

    admin("patch", "memcached/updated", "--type=merge", "-p", '{"spec":{"version":"1.6.18"}}')
    generation = admin.get("memcached", "updated")["metadata"]["generation"]
    observed = f"--for=jsonpath={{.status.observedGeneration}}={generation}"
    admin("wait", "memcached/updated", observed, "--timeout=60s")
    admin("rollout", "status", "deployment/updated", "--timeout=120s")

    eventually(lambda: set(images(admin)) == {"memcached:1.6.18"}, "all pods of the new version")
    wait_ready(admin, "updated")


def images(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}").split()


def test_what_others_change_or_delete_comes_back(admin: Kubectl, operator: None) -> None:
    admin.apply(build_memcached("kept", size=1))
    wait_ready(admin, "kept")

    admin("delete", "service", "kept")
    admin("scale", "deployment/kept", "--replicas=4")

    eventually(lambda: "service/kept" in children(admin, "kept"), "the service is back")
    eventually(lambda: admin.get("deployment", "kept")["spec"]["replicas"] == 1, "the size is back")


def test_delete_leaves_nothing(admin: Kubectl, operator: None) -> None:
    admin.apply(build_memcached("removed", size=2))
    wait_ready(admin, "removed")

    admin("delete", "memcached", "removed")

    eventually(lambda: not children(admin, "removed"), "all children collected")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": 0, "version": "1.6.9"}, "spec.size: Invalid value: 0"),
        ({"size": 1}, "spec.version: Required value"),
        ({"size": "many", "version": "1.6.9"}, "spec.size: Invalid value"),
        ({"size": 1, "version": "latest"}, "spec.version: Invalid value"),
    ],
)
def test_invalid_specs_are_refused_by_field(
    admin: Kubectl, memcached_crd: None, spec: dict[str, Any], message: str
) -> None:
    manifest = build_memcached("wrong") | {"spec": spec}

    refused = admin("apply", "-f", "-", stdin=str(manifest), code=1)

    assert message in refused


def test_a_ready_pool_is_left_alone(admin: Kubectl, operator: None) -> None:
    """Reconcile is idempotent: once ready, no object of the pool is written any more."""
    admin.apply(build_memcached("quiet", size=1))
    wait_ready(admin, "quiet")
    versions = resource_versions(admin)

    time.sleep(3)  # the time in which a loop of writes would show

    assert resource_versions(admin) == versions


def resource_versions(kubectl: Kubectl) -> str:
    path = "jsonpath={.items[*].metadata.resourceVersion}"
    return kubectl("get", "memcached,deploy,rs,svc", "-o", path)


def test_the_operator_killed_at_any_moment_ends_in_the_same_state(
    admin: Kubectl, memcached_crd: None, cluster: Cluster, tmp_path: Path
) -> None:
    """Kill -9 at ten random moments while twenty pools grow: the end is as without."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # shown when the test fails, to replay it
    choose = random.Random(seed)
    names = [f"pool-{number:02}" for number in range(20)]
    log = (tmp_path / "operator.log").open("wb")
    process = start_operator(cluster, log.fileno())
    for name in names:
        admin.apply(build_memcached(name, size=1))
    for name in names:
        admin("patch", "memcached", name, "--type=merge", "-p", '{"spec":{"size":2}}')
        if len(names) - int(name[-2:]) <= 10:
            time.sleep(choose.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start_operator(cluster, log.fileno())
    try:
        for name in names:
            wait_ready(admin, name)
        eventually(lambda: is_as_without_crash(admin, names), "two ready pods in every pool", 90)
    finally:
        process.terminate()
        process.wait(40)
        log.close()


def is_as_without_crash(kubectl: Kubectl, names: list[str]) -> bool:
    """Tell whether each pool has one Deployment, ReplicaSet and Service, and two ready nodes."""
    pools = kubectl.get("memcached")["items"]
    done = all(
        len(pool["status"]["nodes"]) == 2
        and pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
        for pool in pools
    )
    count = {kind: len(kubectl("get", kind, "-o", "name").split()) for kind in ("deploy", "rs")}
    services = len(kubectl("get", "svc", "-o", "name").split())
    pods = len(kubectl("get", "pods", "-o", "name").split())
    return done and set(count.values()) == {len(names)} and services == 20 and pods == 40
