"""The pytest plugin: `cluster`, `real_cluster` and `fake_clock`.

pytest loads it in every run of an environment that has kubewright: what costs time is imported by
the fixtures, when a test asks for one.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubewright.testing.cluster import Cluster
    from kubewright.testing.fake_clock import FakeClock


def _async_fixture(function: Callable[..., Any]) -> Any:
    """Declare a fixture that pytest-asyncio runs, in its strict mode too."""
    if importlib.util.find_spec("pytest_asyncio") is None:
        return _refuse(function.__name__)
    import pytest_asyncio

    return pytest_asyncio.fixture(function)


def _refuse(name: str) -> Any:
    """Declare a fixture that says what is missing: "fixture not found" would help nobody."""

    def fail() -> None:
        pytest.fail(f"the fixture {name} needs pytest-asyncio: install it", pytrace=False)

    return pytest.fixture(name=name)(fail)


@_async_fixture
async def cluster() -> AsyncIterator[Cluster]:
    """An API server of the test's own, in memory; see `kubewright.testing.Cluster`."""
    from kubewright.testing.cluster import embedded_cluster

    async with embedded_cluster() as made:
        yield made


@pytest.fixture(scope="session")
def real_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig of a real kube-apiserver, for the whole session.

    It is the one of $KUBEWRIGHT_TEST_KUBECONFIG, or one that is started from $KUBEBUILDER_ASSETS or
    from where `make conformance` builds it. Without any of them the test is skipped.
    """
    from kubewright.testing import real_server as real

    given = os.environ.get(real.KUBECONFIG)
    if given:
        yield Path(given)
        return
    binaries = real.find_binaries(os.environ)
    if binaries is None:
        pytest.skip(
            f"no kube-apiserver: set {real.KUBECONFIG} to a kubeconfig, {real.ASSETS} to the "
            "folder of etcd and kube-apiserver, or build them with `make conformance`"
        )
    with real.serve_kube_apiserver(binaries, tmp_path_factory.mktemp("real")) as kubeconfig:
        yield kubeconfig


@_async_fixture
async def real_cluster(real_kubeconfig: Path) -> AsyncIterator[Cluster]:
    """A namespace of the test's own on a real kube-apiserver; see `kubewright.testing.Cluster`."""
    from kubewright.client.kubeconfig import KubeConfig
    from kubewright.testing.cluster import cluster_at

    async with cluster_at(KubeConfig.load(real_kubeconfig)) as made:
        yield made


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that stands until the test moves it; give it to `cluster.run`."""
    from kubewright.testing.fake_clock import FakeClock

    return FakeClock()
