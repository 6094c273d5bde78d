"""Three servers of the stock image keep their data, whatever is killed around them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.kept_cluster import KeptCluster
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

INSTANCES = ("db-0", "db-1", "db-2")


def build_servers() -> dict[str, Any]:
    """Build a StatefulSet of servers, as users of the stock image write it."""
    labels = {"app": "db"}
    probe = {"exec": {"command": ["pg_isready", "-U", "postgres", "-h", "127.0.0.1"]}}
    container = {
        "name": "postgres",
        "image": "postgres:15",
        "env": [
            {"name": "POSTGRES_PASSWORD", "value": "secret"},
            {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
        ],
        "readinessProbe": {**probe, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def ask(kubectl: Kubectl, pod: str, sql: str) -> str:
    """Run SQL in a pod; what went wrong is in the text."""
    psql = ("psql", "-U", "postgres", "-h", "127.0.0.1", "-XAtc", sql)
    return kubectl("exec", pod, "--", "env", "PGPASSWORD=secret", *psql, code=None).strip()


def until_all_answer(kubectl: Kubectl, instances: tuple[str, ...] = INSTANCES) -> None:
    """Wait until each server has the row that it was given, and no other's."""
    for pod in instances:
        eventually(
            lambda pod=pod: ask(kubectl, pod, "SELECT w FROM t") == f"of {pod}",  # type: ignore[misc]  # the loop's value, not the last one
            f"the data of {pod}",
            seconds=120,
        )


def processes() -> Iterator[tuple[int, str, str]]:
    """Yield the number, the command line and the environment of each process of the machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            environment = (folder / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        yield int(folder.name), command, environment


def kill_server(pod: str) -> None:
    """Kill the first process of a server with SIGKILL, from outside of its pod."""
    found = [
        pid
        for pid, command, environment in processes()
        if command.startswith("postgres ") and f"HOSTNAME={pod}\0" in environment
    ]
    os.kill(min(found), signal.SIGKILL)


def kill_process(part: str, folder: Path) -> None:
    """Kill a process of the cluster of a folder with SIGKILL."""
    found = [
        pid
        for pid, command, environment in processes()
        if part in command and str(folder) in command + environment
    ]
    os.kill(found[0], signal.SIGKILL)


def test_data_are_kept_over_the_end_of_pods_node_and_control_plane(
    kept: KeptCluster, tmp_path: Path
) -> None:
    kubectl = kept.up()
    if kubectl.cluster.simulated:
        pytest.skip("needs processes in pods")
    kubectl.apply(build_servers())
    kubectl("rollout", "status", "statefulset/db", "--timeout=240s")
    for pod in INSTANCES:
        answer = ask(kubectl, pod, f"CREATE TABLE t AS SELECT 'of {pod}' AS w")
        assert answer == "SELECT 1"

    kill_server("db-1")
    until_all_answer(kubectl)
    kubectl("delete", "pod", "db-2", "--grace-period=0", "--force")
    until_all_answer(kubectl)

    kill_process("kubewright.local.node", tmp_path)
    until_all_answer(kubectl)

    kubectl("scale", "statefulset/db", "--replicas=1")
    kubectl("wait", "--for=delete", "pod/db-1", "--timeout=90s")
    until_all_answer(kubectl, ("db-0",))
    kubectl("scale", "statefulset/db", "--replicas=3")
    until_all_answer(kubectl)

    kill_process("kubewright.local.cluster", tmp_path)
    until_all_answer(kept.up())
