"""The same faults on a proxy that any process may use."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.errors import (
    Conflict,
    InternalError,
    NotFound,
    NotImplementedByServer,
    TransportError,
)
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.http_transport import HTTPTransport
from kubewright.client.kubeconfig import KubeConfig, User
from kubewright.client.transport import Transport
from kubewright.testing import FaultProxy, Faults
from tests.testing.objects import build_config_map


@pytest.fixture
async def proxy(upstream: Transport, faults: Faults) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(upstream, faults).serve() as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    """Talk to the server through the proxy."""
    async with proxy.connect() as client:
        yield client


async def test_objects_pass_unchanged(client: Client, admin: Client, namespace: str) -> None:
    made = await client.create(build_config_map(namespace, word="ä" * 200_000))

    assert await admin.get(builtin.CONFIG_MAP, "settings", namespace=namespace) == made
    with pytest.raises(NotFound, match="missing"):
        await client.get(builtin.CONFIG_MAP, "missing", namespace=namespace)


async def test_a_fault_hits_whoever_goes_through(
    client: Client, faults: Faults, namespace: str
) -> None:
    faults.fail("create", "configmaps", code=409)
    with pytest.raises(Conflict):
        await client.create(build_config_map(namespace))

    faults.cut("create", "configmaps", after_commit=True)
    with pytest.raises(TransportError):
        await client.create(build_config_map(namespace, word="a"))

    found = await client.get(builtin.CONFIG_MAP, "settings", namespace=namespace)
    assert found["data"] == {"word": "a"}


async def test_events_come_as_they_happen(
    client: Client, admin: Client, faults: Faults, namespace: str
) -> None:
    listed = await admin.list(builtin.CONFIG_MAP, namespace=namespace)
    async with client.watch(
        builtin.CONFIG_MAP, namespace=namespace, resource_version=listed.resource_version
    ) as events:
        for name in ("one", "two"):
            await admin.create(build_config_map(namespace, name))
            async with asyncio.timeout(5):
                assert (await anext(events)).meta.name == name
        assert faults.send_error("configmaps", code=500) == 1
        with pytest.raises(InternalError):
            await anext(events)


async def test_a_dropped_watch_breaks_at_the_client(
    client: Client, faults: Faults, namespace: str
) -> None:
    async with client.watch(builtin.CONFIG_MAP, namespace=namespace) as events:
        assert faults.drop_watches() == 1
        with pytest.raises(TransportError):
            _ = [event async for event in events]

    async with client.watch(builtin.CONFIG_MAP, namespace=namespace) as events:
        assert faults.drop_watches(clean=True) == 1
        _ = [event async for event in events]


async def test_a_client_that_leaves_ends_its_watch(
    client: Client, faults: Faults, namespace: str
) -> None:
    async with client.watch(builtin.CONFIG_MAP, namespace=namespace):
        pass

    async with asyncio.timeout(5):
        while faults.drop_watches():  # noqa: ASYNC110 - the closed socket is the kernel's to report
            await asyncio.sleep(0.01)


async def test_clients_are_asked_to_speak_json(proxy: FaultProxy, namespace: str) -> None:
    """client-go prefers protobuf, in which no error event could be put between two others."""
    transport = HTTPTransport(proxy.url)
    accept = "application/vnd.kubernetes.protobuf,application/json"
    answer = await transport.request(
        "GET", builtin.CONFIG_MAP.path(namespace=namespace), headers={"Accept": accept}
    )
    await transport.close()

    assert json.loads(answer.body)["kind"] == "ConfigMapList"


async def test_upgrades_are_refused_by_name(client: Client, proxy: FaultProxy) -> None:
    transport = HTTPTransport(proxy.url)
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = await transport.request("GET", "/api/v1/namespaces/a/pods/b/exec", headers=headers)
    await transport.close()

    assert answer.status == NotImplementedByServer.default_code
    assert "upgraded connection" in json.loads(answer.body)["message"]


async def test_faults_tell_clients_and_their_credentials_apart(
    proxy: FaultProxy, faults: Faults
) -> None:
    """Rotated credentials are a rule; the server itself sees those of the proxy."""
    faults.fail(
        code=401, times=None, where=lambda call: call.header("Authorization") != "Bearer new"
    )
    faults.fail(code=403, times=None, where=lambda call: call.header("user-agent") == "replica-b")

    async def ask(token: str, user_agent: str) -> int:
        config = KubeConfig(server=proxy.url, user=User(token=token))
        async with connect(config, user_agent=user_agent) as client:
            path = builtin.NAMESPACE.path("default")
            headers = {"User-Agent": user_agent}
            return (await client.transport.request("GET", path, headers=headers)).status

    assert await ask("old", "replica-a") == 401
    assert await ask("new", "replica-a") == 200
    assert await ask("new", "replica-b") == 403


async def test_the_kubeconfig_leads_to_the_proxy(
    proxy: FaultProxy, faults: Faults, tmp_path: Path
) -> None:
    path = proxy.write_kubeconfig(tmp_path / "kubeconfig")

    async with connect(KubeConfig.load(path)) as client:
        await client.request("GET", "/version")

    assert [str(call) for call in faults.traffic.calls] == ["GET /version"]


@pytest.mark.processes
async def test_kubectl_meets_the_faults(
    proxy: FaultProxy, faults: Faults, namespace: str, tmp_path: Path
) -> None:
    kubectl = Path(sys.prefix) / "kubectl-37" / "kubectl"
    path = proxy.write_kubeconfig(tmp_path / "kubeconfig")
    faults.fail("create", "configmaps", code=403, message="not today")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(kubectl), f"--kubeconfig={path}", "-n", namespace, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    refused = await asyncio.to_thread(run, "create", "configmap", "one")
    made = await asyncio.to_thread(run, "create", "configmap", "one")

    assert "not today" in refused.stderr
    assert made.returncode == 0, made.stderr
