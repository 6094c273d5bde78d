from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.local.apiserver.crd.definitions import definition, version

from kubewright.local.apiserver.memory import MemoryTransport
from kubewright.local.apiserver.serving import ServerOptions, serve

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
NAME = f"{CRDS}/widgets.example.com"


async def send(
    api: MemoryTransport, method: str, path: str, body: dict[str, Any] | None = None
) -> tuple[int, Any]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    data = b"" if body is None else json.dumps(body).encode()
    answer = await api.request(method, path, headers={"Content-Type": kind}, body=data)
    is_json = answer.headers["Content-Type"].startswith("application/json")
    return answer.status, json.loads(answer.body) if is_json else answer.body


async def wait_for(api: MemoryTransport, path: str, status: int) -> Any:
    async with asyncio.timeout(10):
        while True:
            found, body = await send(api, "GET", path)
            if found == status:
                return body
            await asyncio.sleep(0.01)


async def create(api: MemoryTransport, crd: dict[str, Any]) -> None:
    assert (await send(api, "POST", CRDS, crd))[0] == 201
    await wait_for(api, WIDGETS, 200)


def widget(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
    }


async def test_serves_a_definition_and_stops_when_it_is_deleted() -> None:
    async with serve(ServerOptions(listening=False)) as running:
        api = running.client_transport()
        await create(api, definition())
        held = widget("b", finalizers=["example.com/hold"])
        assert (await send(api, "POST", WIDGETS, widget("a")))[0] == 201
        assert (await send(api, "POST", WIDGETS, held))[0] == 201
        status, crd = await send(api, "DELETE", NAME)
        assert status == 200
        assert crd["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        await wait_for(api, f"{WIDGETS}/a", 404)
        status, refusal = await send(api, "POST", WIDGETS, widget("c"))
        assert (status, refusal["reason"]) == (403, "Forbidden")
        await send(api, "PATCH", f"{WIDGETS}/b", {"metadata": {"finalizers": None}})
        await wait_for(api, NAME, 404)
        await wait_for(api, WIDGETS, 404)


async def test_follows_a_changed_schema() -> None:
    async with serve(ServerOptions(listening=False)) as running:
        api = running.client_transport()
        await create(api, definition())
        schema = {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {"type": "object"}},
        }
        change = {"spec": {"versions": [version(schema)]}}
        assert (await send(api, "PATCH", NAME, change))[0] == 200
        status, refusal = await send(api, "POST", WIDGETS, widget("a"))
        assert (status, refusal["details"]["causes"][0]["field"]) == (422, "spec")


async def test_a_second_definition_waits_for_its_names() -> None:
    async with serve(ServerOptions(listening=False)) as running:
        api = running.client_transport()
        first, second = definition(), definition(plural="wheels")
        for crd in (first, second):
            crd["spec"]["names"]["shortNames"] = ["w"]
        await create(api, first)
        await send(api, "POST", CRDS, second)
        wheels = "/apis/example.com/v1/namespaces/default/wheels"
        assert (await send(api, "GET", wheels))[0] == 404
        await send(api, "DELETE", NAME)
        await wait_for(api, wheels, 200)
