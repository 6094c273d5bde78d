from __future__ import annotations

import re

from tests.local.apiserver.caller import CONFIG_MAPS, Caller


async def test_a_new_object_carries_what_the_server_sets(call: Caller) -> None:
    created = await call.config_map("a", data={"k": "v"})
    metadata = created["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
    assert metadata["namespace"] == "default"
    assert metadata["managedFields"][0]["manager"] == "unknown"
    got = await call("GET", f"{CONFIG_MAPS}/a")
    assert got.body == created


async def test_a_duplicate_is_refused(call: Caller) -> None:
    await call.config_map("a")
    reply = await call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (reply.status, reply.body["reason"]) == (409, "AlreadyExists")
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_names_are_generated_and_differ(call: Caller) -> None:
    body = {"metadata": {"generateName": "x-"}}
    names = {(await call("POST", CONFIG_MAPS, body)).body["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"x-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_dry_run_stores_nothing(call: Caller) -> None:
    reply = await call("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert reply.status == 201
    assert "resourceVersion" not in reply.body["metadata"]
    assert (await call("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_unknown_fields_warn_and_are_dropped(call: Caller) -> None:
    reply = await call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "date": 1})
    assert reply.warnings == ['299 - "unknown field \\"date\\""']
    assert "date" not in reply.body


async def test_strict_refuses_unknown_and_duplicate_fields(call: Caller) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"date":1}'
    reply = await call("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert reply.status == 400
    expected = 'strict decoding error: duplicate field "data.k", unknown field "date"'
    assert reply.body["message"].endswith(expected)


async def test_a_string_that_looks_like_a_key_is_no_duplicate(call: Caller) -> None:
    data = {"k": '{"k":1}', "l": '"k":'}
    reply = await call(
        "POST", f"{CONFIG_MAPS}?fieldValidation=Strict", {"metadata": {"name": "a"}, "data": data}
    )
    assert reply.status == 201
    assert reply.body["data"] == data


async def test_a_missing_namespace_is_told(call: Caller) -> None:
    reply = await call("POST", "/api/v1/namespaces/x/configmaps", {"metadata": {"name": "a"}})
    assert (reply.status, reply.body["message"]) == (404, 'namespaces "x" not found')


async def test_a_terminating_namespace_takes_nothing_new(call: Caller) -> None:
    await call("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    await call("DELETE", "/api/v1/namespaces/x")
    reply = await call("POST", "/api/v1/namespaces/x/configmaps", {"metadata": {"name": "a"}})
    assert reply.status == 403
    assert reply.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_body_over_three_mebibytes_is_refused(call: Caller) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "x" * (3 * 1024 * 1024)}}
    reply = await call("POST", CONFIG_MAPS, body)
    assert (reply.status, reply.body["reason"]) == (413, "RequestEntityTooLarge")


async def test_deep_nesting_is_refused_and_the_server_lives(call: Caller) -> None:
    for content_type, opening, closing in (
        ("application/json", b"[", b"]"),
        ("application/yaml", b"[", b"]"),
    ):
        body = opening * 100_000 + closing * 100_000
        reply = await call("POST", CONFIG_MAPS, body, content_type=content_type)
        assert reply.status == 400
    assert (await call("GET", CONFIG_MAPS)).status == 200


async def test_yaml_bodies_are_read(call: Caller) -> None:
    body = b"metadata: {name: a}\ndata: {time: 2001-01-01}\n"
    reply = await call("POST", CONFIG_MAPS, body, content_type="application/yaml")
    assert reply.body["data"] == {"time": "2001-01-01"}


async def test_no_body_at_all_is_refused_in_words(call: Caller) -> None:
    reply = await call("POST", CONFIG_MAPS)
    assert reply.status == 400
    assert reply.body["message"].endswith("unexpected end of JSON input (<empty>)")
