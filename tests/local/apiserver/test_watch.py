from __future__ import annotations

import asyncio

from tests.local.apiserver.caller import CONFIG_MAPS, Caller

from kubewright.local.apiserver.exchange import StreamResponse

MERGE = "application/merge-patch+json"


async def test_a_watch_begins_with_what_is_there(call: Caller) -> None:
    await call.config_map("a")
    events = await call.events(f"{CONFIG_MAPS}?watch=1", 1)
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [("ADDED", "a")]
    assert events[0]["object"]["kind"] == "ConfigMap"


async def test_a_watch_from_a_version_misses_and_repeats_nothing(call: Caller) -> None:
    listed = await call("GET", CONFIG_MAPS)
    version = listed.body["metadata"]["resourceVersion"]
    await call.config_map("a")
    await call("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    await call("DELETE", f"{CONFIG_MAPS}/a")
    events = await call.events(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}", 3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions))


async def test_live_events_arrive(call: Caller) -> None:
    watch = await call.answer("GET", f"{CONFIG_MAPS}?watch=1")
    await call.config_map("a")
    await call.config_map("b")
    events = await call.read(watch, 2)
    assert [event["object"]["metadata"]["name"] for event in events] == ["a", "b"]
    assert not len(call.running.server.backend.hub)


async def test_leaving_a_selector_is_a_deletion(call: Caller) -> None:
    created = await call.config_map("a", metadata={"labels": {"x": "1"}})
    version = created["metadata"]["resourceVersion"]
    for value in ("2", "1"):
        patch = {"metadata": {"labels": {"x": value}}}
        await call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=MERGE)
    target = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&labelSelector=x=1"
    events = await call.events(target, 2)
    assert [event["type"] for event in events] == ["DELETED", "ADDED"]
    assert events[0]["object"]["metadata"]["labels"] == {"x": "1"}
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) == int(version) + 1


async def test_initial_events_end_with_a_bookmark(call: Caller) -> None:
    await call.config_map("a")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    events = await call.events(f"{CONFIG_MAPS}?{query}&allowWatchBookmarks=true", 2)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    metadata = events[1]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert metadata["resourceVersion"] == str(call.running.server.store.revision)


async def test_forgotten_history_is_a_410_event(call: Caller) -> None:
    created = await call.config_map("a")
    await call.config_map("b")
    store = call.running.server.store
    store.compact(store.revision)
    version = created["metadata"]["resourceVersion"]
    events = await call.events(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}", 2)
    assert [(e["type"], e["object"]["code"]) for e in events] == [("ERROR", 410)]


async def test_the_timeout_ends_a_watch_after_a_last_bookmark(call: Caller) -> None:
    version = call.running.server.store.revision
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=0&allowWatchBookmarks=true"
    events = await call.events(f"{CONFIG_MAPS}?{query}", 9)
    assert [event["type"] for event in events] == ["BOOKMARK"]


async def test_a_reader_that_lags_too_far_is_dropped(call: Caller) -> None:
    answer = await call.answer("GET", f"{CONFIG_MAPS}?watch=1")
    assert isinstance(answer, StreamResponse)
    stream = aiter(answer.chunks)
    first = asyncio.ensure_future(anext(stream))
    created = await call.config_map("a", data={"k": "x" * 900_000})
    assert b'"ADDED"' in await first
    for number in range(50):
        patch = {"data": {"n": str(number)}}
        reply = await call(
            "PATCH", f"{CONFIG_MAPS}/{created['metadata']['name']}", patch, content_type=MERGE
        )
        assert reply.status == 200
    rest = [chunk async for chunk in stream]
    assert 0 < b"".join(rest).count(b'"MODIFIED"') < 50


async def test_all_watchers_share_one_encoding(call: Caller) -> None:
    answers = [await call.answer("GET", f"{CONFIG_MAPS}?watch=1") for _ in range(3)]
    streams = [aiter(a.chunks) for a in answers if isinstance(a, StreamResponse)]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await call.config_map("a")
    frames = [await future for future in waiting]
    assert frames[0] == frames[1] == frames[2]
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]  # watches are async generators
