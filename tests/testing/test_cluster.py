"""A cluster for one test."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

import kubewright as kw
from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError, NotFound
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.testing import Cluster, FakeClock, embedded_cluster, eventually
from kubewright.testing.real_server import find_binaries, serve_kube_apiserver
from memcached_operator import operator as memcached_operator
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.testing.objects import build_config_map


async def names_of(cluster: Cluster) -> list[str]:
    found = await cluster.client.list(builtin.CONFIG_MAP, namespace=cluster.namespace)
    names = (obj["metadata"]["name"] for obj in found)
    return sorted(name for name in names if name != "kube-root-ca.crt")


async def check_that_an_operator_runs(cluster: Cluster) -> None:
    async with cluster.run(build_operator()):
        await cluster.client.create(build_pool(cluster.namespace, size=2))
        await eventually(lambda: names_of(cluster), lambda names: names == ["pool-0", "pool-1"])
    writes = [call for call in cluster.faults.traffic.writes if call.resource == "configmaps"]
    assert len(writes) == 2


async def test_an_operator_runs_in_memory(cluster: Cluster) -> None:
    await check_that_an_operator_runs(cluster)


@pytest.mark.processes
async def test_an_operator_runs_on_the_real_api_server(real_cluster: Cluster) -> None:
    await check_that_an_operator_runs(real_cluster)


async def test_faults_hit_the_operator_and_not_the_test(cluster: Cluster) -> None:
    rule = cluster.faults.fail("patch", "configmaps", code=409, times=2)

    await cluster.client.create(build_config_map(cluster.namespace))
    async with cluster.run(build_operator()):
        await cluster.client.create(build_pool(cluster.namespace, size=1))
        await eventually(lambda: names_of(cluster), lambda names: "pool-0" in names)

    assert len(rule.hits) == 2


async def test_a_cluster_takes_milliseconds() -> None:
    async with embedded_cluster():
        pass  # the first one imports

    began = time.perf_counter()
    for _ in range(3):
        async with embedded_cluster() as cluster:
            await cluster.client.get(builtin.NAMESPACE, "default")

    assert (time.perf_counter() - began) / 3 < 0.5


async def test_nothing_is_left_of_the_cluster_before() -> None:
    async with embedded_cluster() as cluster:
        await cluster.client.create(build_config_map("default"))
    async with embedded_cluster() as cluster:
        with pytest.raises(NotFound):
            await cluster.client.get(builtin.CONFIG_MAP, "settings", namespace="default")


async def test_controllers_are_optional(cluster: Cluster) -> None:
    async with cluster.run_controllers("garbage-collector"), cluster.run(build_operator()):
        await cluster.client.create(build_pool("default", size=1))
        await eventually(lambda: names_of(cluster), lambda names: names == ["pool-0"])
        await cluster.client.delete(Pool, "pool", namespace="default")
        await eventually(lambda: names_of(cluster), lambda names: names == [])


async def test_an_unknown_controller_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="deployments"):
        async with cluster.run_controllers("deployments"):
            pass


async def test_another_process_gets_a_kubeconfig_and_the_faults(cluster: Cluster) -> None:
    async with cluster.listen() as path, connect(KubeConfig.load(path)) as client:
        cluster.faults.fail("create", "configmaps", code=403, message="not today")
        with pytest.raises(kw.KubewrightError, match="not today"):
            await client.create(build_config_map("default"))
        await client.create(build_config_map("default"))


async def test_an_operator_that_fails_ends_the_block(cluster: Cluster) -> None:
    class Broken:
        async def run(self) -> None:
            await asyncio.sleep(0.05)
            raise RuntimeError("broken")

    with pytest.raises(ExceptionGroup) as failed:
        async with cluster.run(Broken()):
            await asyncio.sleep(60)
    assert failed.group_contains(RuntimeError, match="broken")
    await asyncio.sleep(0)  # this task itself was not left cancelled


async def test_what_the_test_raises_is_left_as_it_is(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="the test's own"):
        async with cluster.run(build_operator()):
            raise AssertionError("the test's own")


async def test_time_is_the_tests_own(cluster: Cluster, fake_clock: FakeClock) -> None:
    """A second try comes after a back-off; it comes at once where the clock is moved."""
    cluster.faults.fail("patch", "configmaps", code=500, times=8)
    async with cluster.run(build_operator(), clock=fake_clock):
        await cluster.client.create(build_pool("default", size=1))
        began = time.monotonic()
        while "pool-0" not in await names_of(cluster):
            await fake_clock.advance(60)
        assert fake_clock.monotonic() > 1
        assert time.monotonic() - began < 10


@pytest.mark.processes
def test_the_real_api_server_says_why_it_does_not_start(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho no {name} today; exit 1\n")
        (tmp_path / name).chmod(0o755)
    assert find_binaries({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path

    with (
        pytest.raises(ConfigurationError, match=r"no (etcd|kube-apiserver) today"),
        serve_kube_apiserver(tmp_path, tmp_path / "work"),
    ):
        pass


@pytest.mark.processes
async def test_the_faults_hit_kubewright_run_in_another_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    conflict = cluster.faults.fail("PATCH", "deployments", code=409)
    await cluster.install(memcached_operator)
    async with cluster.listen() as kubeconfig:
        log = tmp_path / "operator.log"
        arguments = ["-m", "kubewright.cli.main", "run", "memcached_operator", "-v"]
        arguments += ["--kubeconfig", str(kubeconfig)]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stdout=output, stderr=output
            )
        try:
            await cluster.client.create(build_memcached())
            await eventually(lambda: read_deployment(cluster), within=30)
            assert len(conflict.hits) == 1
            # It follows on after its watches broke.
            assert cluster.faults.drop_watches() > 0
            await cluster.client.delete(builtin.DEPLOYMENT, "pool", namespace="default")
            await eventually(lambda: read_deployment(cluster), within=30)
        finally:
            process.terminate()
            assert await process.wait() == 0, log.read_text()


async def read_deployment(cluster: Cluster) -> kw.Object:
    return await cluster.client.get(builtin.DEPLOYMENT, "pool", namespace="default")


def build_memcached() -> kw.Object:
    return {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "pool", "namespace": "default"},
        "spec": {"size": 2, "version": "1.6.9"},
    }
