from __future__ import annotations

from tests.local.apiserver.caller import CONFIG_MAPS, Caller

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def names(body: dict[str, object]) -> list[str]:
    items = body["items"]
    assert isinstance(items, list)
    return [item["metadata"]["name"] for item in items]


async def test_items_of_built_in_lists_have_no_kind(call: Caller) -> None:
    await call.config_map("a")
    reply = await call("GET", CONFIG_MAPS)
    assert reply.body["kind"] == "ConfigMapList"
    assert "kind" not in reply.body["items"][0]


async def test_pages_are_one_snapshot(call: Caller) -> None:
    for name in "abcd":
        await call.config_map(name)
    first = await call("GET", f"{CONFIG_MAPS}?limit=2")
    assert names(first.body) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 2
    await call("DELETE", f"{CONFIG_MAPS}/c")
    token = first.body["metadata"]["continue"]
    rest = await call("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(rest.body) == ["c", "d"]
    assert "continue" not in rest.body["metadata"]
    assert rest.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]


async def test_pages_of_a_selection_follow_on(call: Caller) -> None:
    for number in range(6):
        await call.config_map(f"m{number}", metadata={"labels": {"odd": str(number % 2)}})
    target = f"{CONFIG_MAPS}?limit=2&labelSelector=odd=1"
    first = await call("GET", target)
    assert names(first.body) == ["m1", "m3"]
    token = first.body["metadata"]["continue"]
    assert names((await call("GET", f"{target}&continue={token}")).body) == ["m5"]


async def test_a_page_of_forgotten_history_has_expired(call: Caller) -> None:
    await call.config_map("a")
    await call.config_map("b")
    first = await call("GET", f"{CONFIG_MAPS}?limit=1")
    await call.config_map("c")
    store = call.running.server.store
    store.compact(store.revision)
    token = first.body["metadata"]["continue"]
    reply = await call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (reply.status, reply.body["reason"]) == (410, "Expired")


async def test_a_version_that_is_not_written_yet_times_out(call: Caller) -> None:
    reply = await call("GET", f"{CONFIG_MAPS}?resourceVersion=99999")
    assert reply.status == 504
    assert ("Retry-After", "1") in reply.headers


async def test_field_selectors_read_fields_of_the_kind(call: Caller) -> None:
    pods = "/api/v1/namespaces/default/pods"
    account = {"metadata": {"name": "default"}}
    await call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    for name, node in (("a", "n1"), ("b", "n2")):
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        reply = await call("POST", pods, {"metadata": {"name": name}, "spec": spec})
        assert reply.status == 201, reply.body
    assert names((await call("GET", f"{pods}?fieldSelector=spec.nodeName=n2")).body) == ["b"]
    refused = await call("GET", f"{pods}?fieldSelector=spec.image=i")
    assert refused.body["message"] == "field label not supported: spec.image"


async def test_tables_have_columns_and_cells(call: Caller) -> None:
    await call.config_map("a", data={"k": "v"})
    reply = await call("GET", CONFIG_MAPS, accept=TABLE)
    assert [column["name"] for column in reply.body["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert reply.body["rows"][0]["cells"][:2] == ["a", 1]
    assert reply.body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_alone_is_served(call: Caller) -> None:
    await call.config_map("a", data={"k": "v"})
    reply = await call("GET", CONFIG_MAPS, accept=PARTIAL)
    assert reply.body["kind"] == "PartialObjectMetadataList"
    assert "data" not in reply.body["items"][0]
