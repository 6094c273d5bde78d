"""Local clusters whose processes are killed, and two of them beside each other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.local.node.programs import is_gone, wait_until

from kubewright.api.builtin import POD
from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import Object
from kubewright.client import KubeConfig, connect
from kubewright.client.client import Client
from kubewright.local.node import detect_runtime

pytestmark = pytest.mark.processes

KUBEWRIGHT = Path(sys.prefix) / "bin" / "kubewright"


class LocalCluster:
    """A cluster that `kubewright local up` has started in a folder of the test's own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
        self._state = folder / "kubewright" / "local" / name
        record = json.loads(self._run("up", "--nodes", "1", "-o", "json"))
        self.pid: int = record["pid"]
        self.kubeconfig = Path(record["kubeconfig"])

    def _run(self, verb: str, *arguments: str) -> str:
        command = [str(KUBEWRIGHT), "local", verb, "--name", self.name, *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def down(self) -> None:
        """End the cluster as a user does."""
        self._run("down")

    @property
    def node(self) -> Object:
        """What the node says of itself."""
        facts: Object = json.loads((self._state / "nodes" / "node-1" / "node.json").read_text())
        return facts

    @property
    def holder(self) -> int:
        """The process that holds the network of the node."""
        return int(self.node["enter"][-1])


@asynccontextmanager
async def running(folder: Path, name: str) -> AsyncIterator[tuple[LocalCluster, Client]]:
    """Run a cluster that ends with the test."""
    detection = await detect_runtime()
    if not detection.processes:
        pytest.skip(detection.reason)
    cluster = await asyncio.to_thread(LocalCluster, folder, name)
    try:
        async with connect(KubeConfig.load(cluster.kubeconfig)) as client:
            yield cluster, client
    finally:
        await asyncio.to_thread(cluster.down)


async def start_pod(client: Client) -> Object:
    """Start a pod and wait until it is ready."""
    container = {"name": "c", "image": "debian:12", "command": ["sleep", "100000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    metadata = {"name": "p", "namespace": "default"}
    await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return await wait_pod(client, lambda pod: is_condition_true(pod, "Ready"))


async def wait_pod(client: Client, is_met: Callable[[Object], bool]) -> Object:
    """Wait until the pod meets a condition."""
    async with asyncio.timeout(60):
        while True:
            pod = await client.get(POD, "p", namespace="default")
            if is_met(pod):
                return pod
            await asyncio.sleep(0.1)


def run_of(pod: Object) -> tuple[str, int]:
    """Return the container that runs, and how often it was restarted."""
    status = pod["status"]["containerStatuses"][0]
    return status["containerID"], status["restartCount"]


async def test_pods_go_on_when_their_node_is_killed(tmp_path: Path) -> None:
    async with running(tmp_path, "one") as (cluster, client):
        before = await start_pod(client)
        node, holder = cluster.node["pid"], cluster.holder
        os.kill(node, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: cluster.node["pid"] != node, "a new node", 30)
        assert cluster.holder == holder
        # The new node acts on its pods again: it follows a change that only it can make.
        patch = {"metadata": {"labels": {"seen": "yes"}}}
        await client.request(
            "PATCH",
            POD.path("p", namespace="default"),
            body=patch,
            content_type="application/merge-patch+json",
        )
        await client.delete(POD, "p", namespace="default", grace_period_seconds=30)
        ending = await client.get(POD, "p", namespace="default")
        assert run_of(ending) == run_of(before)
        async with asyncio.timeout(60):
            while True:
                try:
                    await client.get(POD, "p", namespace="default")
                except KubewrightError:
                    break
                await asyncio.sleep(0.1)


async def test_nothing_is_left_when_all_processes_are_killed(tmp_path: Path) -> None:
    async with running(tmp_path, "one") as (cluster, client):
        await start_pod(client)
        node, holder = cluster.node["pid"], cluster.holder
        interfaces = await asyncio.to_thread(list_interfaces, cluster.node["podCIDR"])
        for pid in (cluster.pid, node):
            os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: is_gone(holder), "the pods end")

        def is_clean() -> bool:
            left = subprocess.check_output(["ip", "-br", "link"], text=True)
            return not any(name in left for name in interfaces)

        await asyncio.to_thread(wait_until, is_clean, "no interface is left")


def list_interfaces(network: str) -> list[str]:
    """List the host's interfaces with addresses in a /24; an ordinary user has none."""
    text = subprocess.check_output(["ip", "-br", "-4", "addr"], text=True)
    prefix = network.rpartition(".")[0] + "."
    return [line.split("@")[0].split()[0] for line in text.splitlines() if f" {prefix}" in line]


async def test_two_clusters_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with running(tmp_path, "one") as (first, client):
        before = await start_pod(client)
        async with running(tmp_path, "two") as (second, other):
            pod = await start_pod(other)
            assert pod["status"]["podIP"] != before["status"]["podIP"]
            assert first.holder != second.holder
        after = await client.get(POD, "p", namespace="default")
        assert run_of(after) == run_of(before)
        assert is_condition_true(after, "Ready")
        assert not is_gone(first.holder)
