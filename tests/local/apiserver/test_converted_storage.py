"""Custom resources whose versions a webhook converts, as clients see them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.local.apiserver.caller import Caller
from tests.local.apiserver.test_definitions import CRDS, definition, is_established

from kubewright.local.apiserver.converting_watcher import ConvertingWatcher
from kubewright.local.apiserver.selectors import FieldSelector, LabelSelector
from kubewright.local.apiserver.watching import Selection
from kubewright.local.apiserver.webhook_call import WebhookCaller

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/widgets" for version in ("v1", "v2"))
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Renaming:
    """A conversion webhook: what v1 calls `old`, v2 calls `new`."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.refused: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def ask(
        self, caller: WebhookCaller, config: Mapping[str, Any], review: Any, timeout: int
    ) -> Any:
        request = review["request"]
        names = [obj["metadata"]["name"] for obj in request["objects"]]
        self.sent.append(names)
        self.asked.set()
        await self.gate.wait()
        result = {"status": "Success"}
        if bad := sorted(self.refused.intersection(names)):
            result = {"status": "Failure", "message": f"not {bad[0]}"}
        target = request["desiredAPIVersion"]
        converted = [self._convert(obj, target) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": result, "convertedObjects": converted}
        return {**review, "response": response}

    def _convert(self, obj: Any, target: str) -> Any:
        names = ("old", "new") if target.endswith("/v2") else ("new", "old")
        spec = dict(obj.get("spec") or {})
        if names[0] in spec:
            spec[names[1]] = spec.pop(names[0])
        return {**obj, "apiVersion": target, "spec": spec}


@pytest.fixture
async def hook(call: Caller, monkeypatch: pytest.MonkeyPatch) -> Renaming:
    """Serve widgets in v1, which is stored, and v2."""
    hook = Renaming()

    async def ask(caller: WebhookCaller, *args: Any) -> Any:
        return await hook.ask(caller, *args)

    monkeypatch.setattr(WebhookCaller, "ask", ask)
    crd = definition()
    crd["spec"]["versions"] = [version("v1", "old"), version("v2", "new")]
    config = {"clientConfig": {"url": "https://hook"}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": config}
    assert (await call("POST", CRDS, crd)).status == 201
    watch = await call.answer("GET", f"{CRDS}?watch=1&timeoutSeconds=5")
    assert any(map(is_established, await call.read(watch, 9, is_established)))
    return hook


def version(name: str, field: str) -> dict[str, Any]:
    text = {"type": "string"}
    spec = {"type": "object", "properties": {field: text, "same": text}}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }


def widget(api: str, name: str, **spec: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    return {
        "apiVersion": f"example.com/{api}",
        "kind": "Widget",
        "metadata": metadata,
        "spec": spec,
    }


async def test_what_one_version_writes_the_other_reads(call: Caller, hook: Renaming) -> None:
    created = await call("POST", V2, widget("v2", "a", new="x"))
    assert (created.status, created.body["spec"]) == (201, {"new": "x"})
    stored = (await call("GET", f"{V1}/a")).body
    assert (stored["apiVersion"], stored["spec"]) == ("example.com/v1", {"old": "x"})
    assert stored["metadata"] == created.body["metadata"]
    changed = await call("PATCH", f"{V2}/a", {"spec": {"new": "y"}}, content_type=MERGE)
    assert (changed.body["spec"], changed.body["metadata"]["generation"]) == ({"new": "y"}, 2)
    assert (await call("GET", f"{V1}/a")).body["spec"] == {"old": "y"}


async def test_the_stored_version_asks_nobody(call: Caller, hook: Renaming) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    await call("PATCH", f"{V1}/a", {"spec": {"old": "y"}}, content_type=MERGE)
    await call("GET", V1)
    await call("DELETE", f"{V1}/a")
    assert hook.sent == []


async def test_a_list_is_converted_in_one_review(call: Caller, hook: Renaming) -> None:
    for name in "abc":
        await call("POST", V1, widget("v1", name, old=name))
    listed = await call("GET", V2)
    assert [item["spec"] for item in listed.body["items"]] == [{"new": name} for name in "abc"]
    assert hook.sent == [["a", "b", "c"]]


async def test_a_list_names_the_objects_that_are_not_converted(
    call: Caller, hook: Renaming
) -> None:
    for name in "abc":
        await call("POST", V1, widget("v1", name, old=name))
    hook.refused = {"a", "c"}
    reply = await call("GET", V2)
    assert (reply.status, reply.body["reason"]) == (500, "StorageReadError")
    fields = [cause["field"] for cause in reply.body["details"]["causes"]]
    assert fields == [f"/registry/example.com/widgets/default/{name}" for name in "ac"]
    assert reply.body["message"].endswith("Kind=Widget failed: not a (and 1 more)")


async def test_a_read_and_a_write_of_what_is_not_converted_are_told_apart(
    call: Caller, hook: Renaming
) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    hook.refused = {"a", "b"}
    read = await call("GET", f"{V2}/a")
    assert (read.status, read.body["reason"]) == (500, "InternalError")
    assert "corrupt object, Code: 7, Key: /example.com/widgets/default/a" in read.body["message"]
    changed = await call("PATCH", f"{V2}/a", {"spec": {"new": "y"}}, content_type=MERGE)
    assert changed.body["message"].startswith("object not decodable revision=")
    assert "reason" not in changed.body
    created = await call("POST", V2, widget("v2", "b", new="x"))
    expected = "conversion webhook for example.com/v2, Kind=Widget failed: not b"
    assert created.body["message"] == expected
    assert (await call("GET", f"{V1}/b")).status == 404


async def test_a_watch_shows_converted_objects_in_order(call: Caller, hook: Renaming) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    watch = await call.answer("GET", f"{V2}?watch=1&timeoutSeconds=5")
    await call("POST", V1, widget("v1", "b", old="y"))
    await call("DELETE", f"{V1}/a")
    events = await call.read(watch, 3)
    shown = [(event["type"], event["object"]["spec"]) for event in events]
    assert shown == [
        ("ADDED", {"new": "x"}),
        ("ADDED", {"new": "y"}),
        ("DELETED", {"new": "x"}),
    ]
    assert {event["object"]["apiVersion"] for event in events} == {"example.com/v2"}


async def test_watches_of_a_version_share_one_conversion(call: Caller, hook: Renaming) -> None:
    revision = (await call("GET", V1)).body["metadata"]["resourceVersion"]
    target = f"{V2}?watch=1&timeoutSeconds=5&resourceVersion={revision}"
    watches = [await call.answer("GET", target) for _ in range(3)]
    await call("POST", V1, widget("v1", "a", old="x"))
    hook.gate.clear()
    readers = asyncio.gather(*(call.read(watch, 1) for watch in watches))
    await asyncio.sleep(0)
    hook.gate.set()
    assert [events[0]["object"]["spec"] for events in await readers] == [{"new": "x"}] * 3
    assert hook.sent == [["a"]]


async def test_a_watch_with_a_selector_tells_what_leaves_it(call: Caller, hook: Renaming) -> None:
    obj = widget("v1", "a", old="x")
    obj["metadata"]["labels"] = {"l": "1"}
    await call("POST", V1, obj)
    watch = await call.answer("GET", f"{V2}?watch=1&timeoutSeconds=5&labelSelector=l%3D1")
    await call("POST", V1, widget("v1", "b", old="y"))
    await call("PATCH", f"{V1}/a", {"metadata": {"labels": None}}, content_type=MERGE)
    events = await call.read(watch, 2)
    shown = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    assert shown == [("ADDED", "a"), ("DELETED", "a")]
    assert events[1]["object"]["spec"] == {"new": "x"}


async def test_a_watch_ends_with_an_error_where_an_object_is_not_converted(
    call: Caller, hook: Renaming
) -> None:
    watch = await call.answer("GET", f"{V2}?watch=1&timeoutSeconds=5")
    hook.refused = {"a"}
    await call("POST", V1, widget("v1", "a", old="x"))
    (event,) = await call.read(watch, 2)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert "failed: not a" in event["object"]["message"]


async def test_initial_events_are_converted_before_their_bookmark(
    call: Caller, hook: Renaming
) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    query = "watch=1&timeoutSeconds=5&sendInitialEvents=true&allowWatchBookmarks=true"
    target = f"{V2}?{query}&resourceVersionMatch=NotOlderThan"
    events = await call.events(target, 2)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[0]["object"]["spec"] == {"new": "x"}


async def test_field_owners_are_found_through_their_own_version(
    call: Caller, hook: Renaming
) -> None:
    one = f"{V1}/a?fieldManager=one"
    await call("PATCH", one, widget("v1", "a", old="x", same="s"), content_type=APPLY)
    two = f"{V2}/a?fieldManager=two"
    refused = await call("PATCH", two, widget("v2", "a", new="y"), content_type=APPLY)
    assert refused.status == 409
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [".spec.old"]
    shared = await call("PATCH", two, widget("v2", "a", new="x"), content_type=APPLY)
    assert shared.status == 200
    forced = await call(
        "PATCH", f"{two}&force=true", widget("v2", "a", new="y"), content_type=APPLY
    )
    fields = {e["manager"]: e["fieldsV1"] for e in forced.body["metadata"]["managedFields"]}
    assert fields == {"one": {"f:spec": {"f:same": {}}}, "two": {"f:spec": {"f:new": {}}}}
    assert (await call("GET", f"{V1}/a")).body["spec"] == {"old": "y", "same": "s"}


async def test_an_update_takes_fields_from_owners_of_another_version(
    call: Caller, hook: Renaming
) -> None:
    one = f"{V1}/a?fieldManager=one"
    await call("PATCH", one, widget("v1", "a", old="x"), content_type=APPLY)
    body = {"spec": {"new": "y"}}
    reply = await call("PATCH", f"{V2}/a?fieldManager=two", body, content_type=MERGE)
    entries = [(e["manager"], e["apiVersion"]) for e in reply.body["metadata"]["managedFields"]]
    assert entries == [("two", "example.com/v2")]


async def test_a_dry_run_converts_and_writes_nothing(call: Caller, hook: Renaming) -> None:
    reply = await call("POST", f"{V2}?dryRun=All", widget("v2", "a", new="x"))
    assert (reply.status, reply.body["spec"]) == (201, {"new": "x"})
    assert hook.sent == [["a"], ["a"]]
    assert (await call("GET", f"{V1}/a")).status == 404


async def test_a_status_written_in_another_version_keeps_the_rest(
    call: Caller, hook: Renaming
) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    body = {"spec": {"new": "y"}, "status": {}}
    reply = await call("PATCH", f"{V2}/a/status", body, content_type=MERGE)
    assert (reply.status, reply.body["spec"]) == (200, {"new": "x"})


async def test_writes_that_wait_for_the_webhook_still_find_a_conflict(
    call: Caller, hook: Renaming
) -> None:
    created = await call("POST", V1, widget("v1", "a", old="x"))
    obj = widget("v2", "a", new="late")
    obj["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"]
    hook.gate.clear()
    late = asyncio.create_task(call("PUT", f"{V2}/a", obj))
    await hook.asked.wait()
    await call("PATCH", f"{V1}/a", {"spec": {"old": "first"}}, content_type=MERGE)
    hook.gate.set()
    assert (await late).status == 409
    assert (await call("GET", f"{V1}/a")).body["spec"] == {"old": "first"}


async def test_a_definition_goes_although_its_webhook_is_gone(call: Caller, hook: Renaming) -> None:
    await call("POST", V1, widget("v1", "a", old="x"))
    hook.refused = {"a"}
    watch = await call.answer("GET", f"{CRDS}?watch=1&timeoutSeconds=5")
    await call("DELETE", f"{CRDS}/widgets.example.com")
    gone = await call.read(watch, 20, lambda event: bool(event["type"] == "DELETED"))
    assert gone[-1]["type"] == "DELETED"


async def review(call: Caller, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> list[Any]:
    """Let a mutating webhook see new widgets of v1; return what it is asked, as it comes."""
    asked: list[Any] = []
    convert = WebhookCaller.ask

    async def ask(caller: WebhookCaller, config: Any, review: Any, timeout: int) -> Any:
        if review["kind"] == "ConversionReview":
            return await convert(caller, config, review, timeout)
        asked.append(review["request"])
        patch = [{"op": "add", "path": "/spec/same", "value": "hooked"}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response = {"uid": review["request"]["uid"], "allowed": True, "patch": encoded}
        return {**review, "response": {**response, "patchType": "JSONPatch"}}

    monkeypatch.setattr(WebhookCaller, "ask", ask)
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["widgets"],
    }
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://hook"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        **fields,
    }
    body = {"metadata": {"name": "h"}, "webhooks": [webhook]}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert (await call("POST", path, body)).status == 201
    return asked


async def test_an_admission_webhook_sees_the_version_that_its_rules_name(
    call: Caller, hook: Renaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await review(call, monkeypatch)
    created = await call("POST", V2, widget("v2", "a", new="x"))
    assert created.body["spec"] == {"new": "x", "same": "hooked"}
    (request,) = asked
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert request["object"]["apiVersion"] == "example.com/v1"
    assert request["object"]["spec"] == {"old": "x"}


async def test_an_exact_rule_concerns_its_own_version_alone(
    call: Caller, hook: Renaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await review(call, monkeypatch, matchPolicy="Exact")
    await call("POST", V2, widget("v2", "a", new="x"))
    assert asked == []


async def test_a_reader_that_lets_changes_pile_up_is_dropped(call: Caller, hook: Renaming) -> None:
    backend = call.running.server.backend
    kind = backend.registry.find("example.com", "v2", "widgets")
    assert kind is not None
    storage = backend.storage(kind)
    everything = Selection(LabelSelector(()), FieldSelector(()))
    watcher = ConvertingWatcher(
        storage, storage.prefix, everything, lambda kind, raw, first: raw, "test", limit=100
    )
    backend.hub.add(watcher)
    await call("POST", V1, widget("v1", "a", old="x"))
    assert watcher.closed
    assert await watcher.read(1) == b""
    backend.hub.remove(watcher)
