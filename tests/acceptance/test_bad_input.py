"""What bad input gets: an error that names the fault, and a server that goes on serving."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.local.cluster.directory import ClusterDirectory
from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT
from tests.acceptance.kubectl import Kubectl
from tests.acceptance.manifests import build_config_map

pytestmark = pytest.mark.processes

KUBEWRIGHT = str(Path(sys.prefix) / "bin" / "kubewright")


def send(kubectl: Kubectl, path: str, body: bytes, media_type: str) -> tuple[int, Any]:
    """POST a raw body through kubectl's proxy-free credentials."""
    from kubewright.client import KubeConfig, connect

    async def request() -> tuple[int, Any]:
        async with connect(KubeConfig.load(kubectl.cluster.kubeconfig)) as client:
            answer = await client.transport.request(
                "POST", path, headers={"Content-Type": media_type}, body=body
            )
            return answer.status, json.loads(answer.body)

    import asyncio

    return asyncio.run(request())


def config_maps(kubectl: Kubectl) -> str:
    return f"/api/v1/namespaces/{kubectl.namespace}/configmaps"


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"metadata":', "application/json"),
        (b"a: [1", "application/yaml"),
        (b"\xff\xfe", "application/json"),
        (b"not protobuf", "application/vnd.kubernetes.protobuf"),
        (b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":5}}', "application/json"),
    ],
)
def test_malformed_bodies_are_refused_and_the_server_goes_on(
    admin: Kubectl, body: bytes, media_type: str
) -> None:
    code, status = send(admin, config_maps(admin), body, media_type)

    assert 400 <= code < 500, status
    assert status["kind"] == "Status"
    assert status["message"]
    assert admin("get", "configmaps")


def test_a_body_over_three_mebibytes_is_too_large(admin: Kubectl) -> None:
    body = json.dumps(build_config_map("big", text="x" * (4 << 20))).encode()

    code, status = send(admin, config_maps(admin), body, "application/json")

    assert code == 413
    assert status["reason"] == "RequestEntityTooLarge"
    assert "big" not in admin("get", "configmaps", "-o", "name")


def test_unknown_kinds_are_named(admin: Kubectl) -> None:
    manifest = {"apiVersion": "example.com/v9", "kind": "Gizmo", "metadata": {"name": "x"}}

    refused = admin("apply", "-f", "-", stdin=str(manifest), code=1)

    assert 'no matches for kind "Gizmo" in version "example.com/v9"' in refused


def test_a_crd_that_is_not_structural_is_refused_by_its_field(admin: Kubectl) -> None:
    schema = {"type": "object", "properties": {"spec": {"properties": {"size": {}}}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "loose.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "loose", "kind": "Loose"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }

    refused = admin("apply", "-f", "-", stdin=str(crd), code=1)

    assert "openAPIV3Schema.properties[spec].type: Required value" in refused


def test_a_kubeconfig_that_points_nowhere_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        config = tmp_path / "kubeconfig"
        server = f"http://127.0.0.1:{unused.getsockname()[1]}"
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )
        result = run_kubewright(
            "run", "memcached_operator", environment={"KUBECONFIG": str(config)}
        )

    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "127.0.0.1" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_kubeconfig_names_the_file(tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(tmp_path / "absent")}

    result = run_kubewright("run", "memcached_operator", environment=environment)

    assert result.returncode == 1
    assert str(tmp_path / "absent") in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        result = run_kubewright(
            *("local", "up", "--name", "clash", "--port", port, "--nodes", "0"),
            environment={"XDG_STATE_HOME": str(tmp_path)},
        )

    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert port in result.stderr


def test_a_second_cluster_of_a_name_is_refused(cluster: Cluster) -> None:
    if cluster.is_real:
        pytest.skip("about the local cluster")

    result = run_kubewright("local", "up", "--name", "acceptance", environment=cluster.environment)

    assert result.returncode == 1
    assert "runs already" in result.stderr


def test_several_clusters_run_at_once_and_stop_alone(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.is_real:
        pytest.skip("about the local cluster")
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    up = ("local", "up", "--nodes", "0", "--controllers", "none", "-o", "json", "--name")
    one = json.loads(run_kubewright(*up, "one", environment=environment).stdout)
    two = json.loads(run_kubewright(*up, "two", environment=environment).stdout)

    assert one["server"] != two["server"]
    status = run_kubewright("local", "status", "-o", "json", environment=environment)
    assert [record["name"] for record in json.loads(status.stdout)] == ["one", "two"]
    run_kubewright("local", "down", "--name", "one", environment=environment)
    status = run_kubewright("local", "status", "-o", "json", environment=environment)
    assert [record["name"] for record in json.loads(status.stdout)] == ["two"]
    run_kubewright("local", "down", "--all", environment=environment)


def test_objects_survive_a_killed_server(tmp_path: Path) -> None:
    """With --data-dir, what was acknowledged is there after kill -9."""
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    up = ("local", "up", "--name", "kept", "--nodes", "0", "--data-dir", str(tmp_path / "data"))
    first = json.loads(run_kubewright(*up, "-o", "json", environment=environment).stdout)
    kubectl = [str(Path(sys.prefix) / "kubectl-34" / "kubectl"), "--kubeconfig"]
    create = [*kubectl, first["kubeconfig"], "create", "configmap", "stays", "--from-literal=a=b"]
    subprocess.run(create, check=True, capture_output=True)
    os.kill(first["pid"], 9)

    second = json.loads(run_kubewright(*up, "-o", "json", environment=environment).stdout)
    get = [*kubectl, second["kubeconfig"], "get", "configmap", "stays", "-o", "jsonpath={.data.a}"]
    found = subprocess.run(get, check=False, capture_output=True, text=True)
    run_kubewright("local", "down", "--name", "kept", environment=environment)

    assert found.stdout == "b", found.stderr


@pytest.mark.parametrize("delay", [0.2, 1.0, 2.0])
def test_an_interrupted_start_leaves_no_process(tmp_path: Path, delay: float) -> None:
    """Ctrl-C at any moment of `local up`; the folder's lock tells whether anything still runs."""
    up = [KUBEWRIGHT, "local", "up", "--name", "cut", "--simulated"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(up, env=environment, stdout=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)

    directory = ClusterDirectory("cut", tmp_path / "kubewright" / "local")
    if code == 0:  # it was ready before the signal
        run_kubewright("local", "down", "--name", "cut", environment=environment)
    assert not directory.is_running()
    assert code in (0, 130, -signal.SIGINT)


def run_kubewright(
    *arguments: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command line and return what it said."""
    return subprocess.run(
        [KUBEWRIGHT, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
