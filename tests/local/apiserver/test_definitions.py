from __future__ import annotations

from typing import Any

from tests.local.apiserver.caller import Caller

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def is_established(event: Any) -> bool:
    conditions = event["object"]["status"].get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def serve_widgets(call: Caller) -> None:
    assert (await call("POST", CRDS, definition())).status == 201
    watch = await call.answer("GET", f"{CRDS}?watch=1&timeoutSeconds=5")
    assert any(map(is_established, await call.read(watch, 9, is_established)))


def widget(name: str) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}


async def test_a_definition_is_served(call: Caller) -> None:
    await serve_widgets(call)
    created = await call("POST", WIDGETS, widget("a"))
    assert created.status == 201
    listed = await call("GET", WIDGETS)
    assert listed.body["items"][0]["kind"] == "Widget"
    assert listed.body["metadata"]["continue"] == ""


async def test_a_definition_that_goes_ends_its_watches(call: Caller) -> None:
    await serve_widgets(call)
    await call("POST", WIDGETS, widget("a"))
    watch = await call.answer("GET", f"{WIDGETS}?watch=1")
    deleted = await call("DELETE", f"{CRDS}/widgets.example.com")
    finalizers = deleted.body["metadata"]["finalizers"]
    assert finalizers == ["customresourcecleanup.apiextensions.k8s.io"]
    # The objects go first: whoever watches them hears of it.
    events = await call.read(watch, 9)
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]


async def test_a_definition_that_is_being_deleted_goes_on_with_its_watches(call: Caller) -> None:
    await serve_widgets(call)
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await call("POST", WIDGETS, held)
    watch = await call.answer("GET", f"{WIDGETS}?watch=1")
    await call("DELETE", f"{CRDS}/widgets.example.com")
    events = await call.read(watch, 2)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED"]
    assert "deletionTimestamp" in events[1]["object"]["metadata"]
    assert (await call("POST", WIDGETS, widget("late"))).status == 403

    removed = {**events[1]["object"], "metadata": {**events[1]["object"]["metadata"]}}
    removed["metadata"]["finalizers"] = []
    watch = await call.answer("GET", f"{WIDGETS}?watch=1")
    assert (await call("PUT", f"{WIDGETS}/held", removed)).status == 200
    assert [event["type"] for event in await call.read(watch, 9)] == ["ADDED", "DELETED"]
