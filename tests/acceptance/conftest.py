"""Acceptance tests: real clients on a whole cluster, ours by default or the real one.

`pytest tests/acceptance --cluster real` runs the same tests on kube-apiserver, controller-manager
and scheduler, with our node under them; `--cluster mixed` on kube-apiserver with our controllers;
`--cluster whole` on a real node too, with kubelet and containerd.
Nothing but the kubeconfig differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubewright.local.storage.local_volume import build_storage_class
from tests.acceptance.clusters import CLUSTERS, Cluster
from tests.acceptance.kept_cluster import KeptCluster
from tests.acceptance.kubectl import Kubectl, eventually

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster with one node, for the whole session."""
    start = CLUSTERS[request.config.getoption("--cluster")]
    with start(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["34", "37"], ids=["kubectl-1.34", "kubectl-1.37"])
def kubectl_binary(request: pytest.FixtureRequest) -> Path:
    """The unmodified kubectl of one minor version."""
    binary = Path(sys.prefix) / f"kubectl-{request.param}" / "kubectl"
    if not binary.exists():
        pytest.fail(f"{binary} is missing: run 'make venv'")
    return binary


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, deleted at its end without waiting."""
    name = cluster.next_namespace()
    admin = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    admin("create", "namespace", name)
    yield name
    admin("delete", "namespace", name, "--wait=false")


@pytest.fixture
def kubectl(kubectl_binary: Path, cluster: Cluster, namespace: str) -> Kubectl:
    """Kubectl in the test's namespace, once for each version."""
    return Kubectl(kubectl_binary, cluster, namespace)


@pytest.fixture
def admin(cluster: Cluster, namespace: str) -> Kubectl:
    """One kubectl, for tests that are not about kubectl."""
    return Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, namespace)


@pytest.fixture(scope="session")
def memcached_crd(cluster: Cluster) -> None:
    """The Memcached kind, installed."""
    admin = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    admin("apply", "-f", str(ROOT / "operators/memcached/config/crd.yaml"))
    admin("wait", "--for=condition=Established", "crd/memcacheds.cache.example.com")


@pytest.fixture
def operator(cluster: Cluster, memcached_crd: None, tmp_path: Path) -> Iterator[None]:
    """The memcached operator, run as its user would."""
    with running_operator(cluster, "memcached_operator", tmp_path / "operator.log"):
        yield


@pytest.fixture
def nginx(request: pytest.FixtureRequest) -> None:
    """Skip where the image that the users' web applications name cannot be had."""
    if request.config.getoption("--cluster") == "whole":
        pytest.skip("the node of this cluster reaches no registry, and has no image of nginx")


@contextmanager
def running_operator(cluster: Cluster, module: str, log: Path) -> Iterator[None]:
    """Run an operator as its user would; at the end it stops properly and has no traceback."""
    with log.open("wb") as output:
        process = start_operator(cluster, output.fileno(), module)
        try:
            # A signal before that would find no handler.
            eventually(
                lambda: process.poll() is not None or "is running" in log.read_text(),
                f"{module} to run",
            )
            yield
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.terminate()
        code = process.wait(40)
    text = log.read_text()
    assert code == 0, text
    assert "Traceback" not in text, text


def start_operator(
    cluster: Cluster, output: int, module: str = "memcached_operator"
) -> subprocess.Popen[bytes]:
    """Start `kubewright run MODULE` against the cluster."""
    return subprocess.Popen(
        [Path(sys.prefix) / "bin" / "kubewright", "run", module],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=output,
        stderr=output,
    )


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeptCluster]:
    """A cluster that keeps its objects, for a test that starts it; ended after it."""
    if request.config.getoption("--cluster") != "local":
        pytest.skip("about `kubewright local up`")
    cluster = KeptCluster(tmp_path)
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def storage(cluster: Cluster) -> None:
    """A class of volumes: `local up` makes it, who joins a node to another cluster adds it."""
    admin = Kubectl(Path(sys.prefix) / "kubectl-34" / "kubectl", cluster, "default")
    if not admin("get", "storageclass", "standard", "--ignore-not-found"):
        admin.apply(build_storage_class(default=True))
