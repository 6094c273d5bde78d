"""Measure what a cluster makes of pods, and print a table.

    python benchmarks/pods.py [--pods N] [--replicas N]

Rows: from the creation of a pod until it is Ready, one after the other; a Deployment of many
replicas until all are available, and until all are of a second template; one `kubectl exec`; many
simulated pods at once until all are Ready, with the memory of all processes. Columns: our cluster
and, where `make e2e` has built it, the real Kubernetes with kubelet and containerd on this machine.
Kubernetes' own goal for the first is 5 s in 99 of 100 cases, pulls apart (kubernetes/community,
sig-scalability, "Pod startup latency SLI/SLO details").
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubewright.api import builtin
from kubewright.api.conditions import is_condition_true
from kubewright.api.resource import Object
from kubewright.client import KubeConfig, connect
from kubewright.client.client import Client

BIN = Path(sys.prefix) / "bin"
IMAGE = "busybox:1.35"
COMMAND = ["sleep", "3600"]
EXECS = 10


def build_pod_spec(template: str = "1") -> Object:
    """Build the pod that is measured: a small image that is there, no volumes, no probes."""
    container = {
        "name": "c",
        "image": IMAGE,
        "command": COMMAND,
        "env": [{"name": "TEMPLATE", "value": template}],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {"terminationGracePeriodSeconds": 0, "containers": [container]}


def build_deployment(name: str, replicas: int, template: str) -> Object:
    """Build a Deployment of such pods that may all be replaced at once."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": build_pod_spec(template)},
        },
    }


async def watch_until(
    client: Client, resource: Any, name: str, is_met: Callable[[Object], bool]
) -> None:
    """Wait for an event that meets a condition."""
    async with (
        asyncio.timeout(300),
        client.watch(
            resource, namespace="default", fields={"metadata.name": name}, send_initial_events=True
        ) as events,
    ):
        async for event in events:
            if event.type != "BOOKMARK" and is_met(json.loads(event.raw)):
                return


async def measure_pods(client: Client, count: int) -> list[float]:
    """Return the seconds from the creation of each pod until it is Ready."""
    seconds = []
    for number in range(count + 1):
        metadata = {"name": f"one-{number}", "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": build_pod_spec()}
        began = time.perf_counter()
        await client.create(pod)
        await watch_until(
            client, builtin.POD, metadata["name"], lambda pod: is_condition_true(pod, "Ready")
        )
        seconds.append(time.perf_counter() - began)
    return seconds[1:]  # the first also waits for the image


def is_available(replicas: int) -> Callable[[Object], bool]:
    """Return what tells whether all replicas are of the last template and available."""

    def check(deployment: Object) -> bool:
        status = deployment.get("status") or {}
        wanted = ("replicas", "updatedReplicas", "availableReplicas")
        seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return seen and all(status.get(field) == replicas for field in wanted)

    return check


async def measure_rollout(client: Client, replicas: int) -> tuple[float, float]:
    """Return the seconds until a Deployment is available, and until a second template is."""
    seconds = []
    for template in ("1", "2"):
        began = time.perf_counter()
        await client.apply(build_deployment("many", replicas, template))
        await watch_until(client, builtin.DEPLOYMENT, "many", is_available(replicas))
        seconds.append(time.perf_counter() - began)
    await client.delete(builtin.DEPLOYMENT, "many", namespace="default")
    return seconds[0], seconds[1]


def measure_exec(kubeconfig: Path) -> float:
    """Return the median seconds of `kubectl exec POD -- true`."""
    kubectl = [str(Path(sys.prefix) / "kubectl-34" / "kubectl"), f"--kubeconfig={kubeconfig}"]
    seconds = []
    for _ in range(EXECS):
        began = time.perf_counter()
        subprocess.run([*kubectl, "exec", "one-1", "--", "true"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


async def measure(kubeconfig: Path, pods: int, replicas: int) -> dict[str, str]:
    """Measure one cluster."""
    client = connect(KubeConfig.load(kubeconfig))
    try:
        single = sorted(await measure_pods(client, pods))
        first, second = await measure_rollout(client, replicas)
    finally:
        await client.close()
    return {
        "pod to Ready, median": f"{statistics.median(single) * 1000:.0f} ms",
        "pod to Ready, slowest": f"{single[-1] * 1000:.0f} ms",
        f"{replicas} replicas available": f"{first:.1f} s",
        f"{replicas} replicas replaced": f"{second:.1f} s",
        "kubectl exec": f"{measure_exec(kubeconfig) * 1000:.0f} ms",
    }


async def measure_simulated(kubeconfig: Path, replicas: int) -> float:
    """Return the seconds until many simulated pods are available."""
    client = connect(KubeConfig.load(kubeconfig))
    try:
        return (await measure_rollout(client, replicas))[0]
    finally:
        await client.close()


def memory_of(root: int) -> float:
    """Return the resident memory of a process and all below it, in MiB."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, left = 0, [root]
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        found += pages * os.sysconf("SC_PAGE_SIZE")
    return found / 2**20


def start(folder: str, *flags: str) -> dict[str, Any]:
    """Start a cluster of ours."""
    up = [str(BIN / "kubewright"), "local", "up", "--name", "bench", "-o", "json", *flags]
    environment = {**os.environ, "XDG_STATE_HOME": folder}
    started = subprocess.run(up, env=environment, capture_output=True, text=True, check=True)
    record: dict[str, Any] = json.loads(started.stdout)
    return record


def stop(folder: str) -> None:
    """Stop it."""
    down = [str(BIN / "kubewright"), "local", "down", "--name", "bench"]
    environment = {**os.environ, "XDG_STATE_HOME": folder}
    subprocess.run(down, env=environment, capture_output=True, check=True)


def measure_ours(pods: int, replicas: int, simulated: int) -> dict[str, str]:
    """Measure our cluster, with processes and with simulated pods."""
    figures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        record = start(folder)
        try:
            figures |= asyncio.run(measure(Path(record["kubeconfig"]), pods, replicas))
        finally:
            stop(folder)
        record = start(folder, "--simulated")
        try:
            seconds = asyncio.run(measure_simulated(Path(record["kubeconfig"]), simulated))
            figures[f"{simulated} simulated pods"] = (
                f"{seconds:.1f} s, {memory_of(record['pid']):.0f} MiB"
            )
        finally:
            stop(folder)
    return figures


def measure_real(pods: int, replicas: int) -> dict[str, str]:
    """Measure the real Kubernetes with a real node; nothing where it is not built."""
    cache = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster"))
    if not (cache / "bin" / "containerd").exists() or os.geteuid() != 0:
        return {}
    # The same way in which the acceptance tests start it.
    from tests.acceptance.clusters import whole_cluster

    with tempfile.TemporaryDirectory() as folder, whole_cluster(Path(folder)) as cluster:
        return asyncio.run(measure(cluster.kubeconfig, pods, replicas))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what clusters make of pods.")
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=100, help="the kubelet takes 110 pods")
    parser.add_argument("--simulated", type=int, default=500)
    options = parser.parse_args()
    replicas = min(options.replicas, 110 - options.pods - 10)
    ours = measure_ours(options.pods, replicas, options.simulated)
    real = measure_real(options.pods, replicas)
    print(f"{'':28}{'kubewright':>20}{'kubelet, containerd':>22}")
    for name, figure in ours.items():
        print(f"{name:28}{figure:>20}{real.get(name, ''):>22}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
