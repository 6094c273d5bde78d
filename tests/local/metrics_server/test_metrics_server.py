"""The whole way of usage: node, API server, metrics server, API server again, client."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.local.node.conftest import prepare_namespace
from tests.local.node.waiting import create_pod, is_ready, wait_for

from kubewright.api.builtin import POD
from kubewright.api.errors import APIError, BadRequest, NotFound
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.clock import SystemClock
from kubewright.client.requests import PatchType
from kubewright.local.apiserver import ServerOptions, serve
from kubewright.local.metrics_server import MetricsServer
from kubewright.local.metrics_server.registration import API_SERVICE, ensure_no_registration
from kubewright.local.node import Node, SimulatedRuntime
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.runtime.manager import Manager

METRICS = "/apis/metrics.k8s.io/v1beta1"


class HastyClock(SystemClock):
    """Sleeps a hundredth of what it is asked for: a look each 150 ms."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Run an API server, a node of simulated pods and a metrics server."""
    async with serve(ServerOptions(folder=tmp_path / "pki")) as server:
        client = Client(server.client_transport())
        await prepare_namespace(client)
        access = EndpointAccess(server.ca.encode())
        node = Node(client, "node-1", SimulatedRuntime(), tmp_path / "node", access=access)
        clock = HastyClock()
        manager = Manager(client, clock=clock, grace_period=timedelta())
        manager.add(MetricsServer(manager.environment))
        tasks = [asyncio.create_task(node.run()), asyncio.create_task(manager.run())]
        try:
            await node.wait_ready()
            yield client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def read(client: Client, path: str, **query: str) -> Object:
    body = await client.request("GET", f"{METRICS}/{path}", query=list(query.items()))
    return dict(json.loads(body))


async def eventually(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until something is there; what the API refuses is not."""
    async with asyncio.timeout(20):
        while True:
            try:
                if found := await condition():
                    return found
            except APIError:
                pass
            await asyncio.sleep(0.02)


async def create_using(client: Client, name: str, cpu: str, **labels: str) -> None:
    await create_pod(client, name)
    patch = {"metadata": {"annotations": {"usage.kubewright.dev/cpu": cpu}, "labels": labels}}
    await client.patch(POD, name, patch, type=PatchType.MERGE, namespace="ns")
    await wait_for(client, name, is_ready)


async def test_usage_of_pods_and_nodes_is_served(client: Client) -> None:
    await create_using(client, "a", "500m", app="web")
    await create_using(client, "b", "250m")

    async def measured() -> Object | None:
        pods = await read(client, "namespaces/ns/pods")
        rates = {item["metadata"]["name"]: item for item in pods["items"]}
        if not rates.keys() >= {"a", "b"}:
            return None
        # The annotation came after the start: the first rates may be lower.
        used = Quantity(rates["a"]["containers"][0]["usage"]["cpu"]).to_milli()
        return rates if 400 < used < 600 else None

    rates = await eventually(measured)
    pod = rates["a"]
    assert pod["metadata"]["labels"]["app"] == "web"
    assert pod["containers"][0]["usage"]["memory"] == "10Mi"
    assert pod["kind"] == "PodMetrics"
    selected = await read(client, "pods", labelSelector="app=web")
    assert [item["metadata"]["name"] for item in selected["items"]] == ["a"]
    named = await read(client, "pods", fieldSelector="metadata.name=b")
    assert [item["metadata"]["name"] for item in named["items"]] == ["b"]
    assert (await read(client, "namespaces/ns/pods/a"))["metadata"]["name"] == "a"
    node = await eventually(lambda: read(client, "nodes/node-1"))
    assert set(node["usage"]) == {"cpu", "memory"}
    (only,) = (await read(client, "nodes"))["items"]
    assert only["kind"] == "NodeMetrics"


async def test_a_table_sums_the_containers_of_a_pod(client: Client) -> None:
    await create_using(client, "a", "1")
    await eventually(lambda: read(client, "namespaces/ns/pods/a"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    response = await client.transport.request(
        "GET", f"{METRICS}/namespaces/ns/pods", headers={"Accept": accept}
    )
    table = json.loads(response.body)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "cpu", "memory", "Window"]
    (row,) = table["rows"]
    assert (row["cells"][0], row["cells"][2]) == ("a", "10Mi")


async def test_what_is_not_there_is_named(client: Client) -> None:
    await eventually(lambda: read(client, "nodes/node-1"))
    with pytest.raises(NotFound) as missing:
        await read(client, "namespaces/ns/pods/none")
    assert str(missing.value) == 'pods "ns/none" not found'
    with pytest.raises(BadRequest):
        await read(client, "pods", labelSelector="a in b")
    with pytest.raises(BadRequest):
        await read(client, "pods", fieldSelector="spec.nodeName=x")
    with pytest.raises(NotFound):
        await read(client, "things")


async def test_nobody_but_the_api_server_may_ask(client: Client) -> None:
    service = await eventually(lambda: client.get(API_SERVICE, "v1beta1.metrics.k8s.io"))
    port = service["spec"]["service"]["port"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{port}{METRICS}/pods"
        headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        async with session.get(url, ssl=context, headers=headers) as response:
            assert response.status == 401
            assert (await response.json())["reason"] == "Unauthorized"


async def test_the_group_is_discovered(client: Client) -> None:
    async def listed() -> bool:
        groups = json.loads(await client.request("GET", "/apis"))["groups"]
        return any(group["name"] == "metrics.k8s.io" for group in groups)

    await eventually(listed)
    resources = await eventually(lambda: client.request("GET", METRICS))
    assert {entry["kind"] for entry in json.loads(resources)["resources"]} == {
        "NodeMetrics",
        "PodMetrics",
    }


async def test_a_registration_that_nobody_answers_for_can_be_taken_back(client: Client) -> None:
    await eventually(lambda: client.get(API_SERVICE, "v1beta1.metrics.k8s.io"))
    await ensure_no_registration(client)
    with pytest.raises(NotFound):
        await client.get(API_SERVICE, "v1beta1.metrics.k8s.io")
    await ensure_no_registration(client)
