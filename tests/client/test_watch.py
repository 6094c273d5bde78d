from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api import builtin
from kubewright.api.errors import Expired, Forbidden, TransportError
from kubewright.client import Client
from kubewright.client.watch import EventReader, MalformedEvent, WatchEvent, decode_event
from tests.client.scripted_transport import (
    Script,
    ScriptedTransport,
    event,
    failure,
    pod,
    status_object,
)


async def read(*chunks: bytes, error: Exception | None = None) -> list[WatchEvent]:
    transport = ScriptedTransport.of(Script(chunks, error))
    async with Client(transport).watch(builtin.POD, resource_version="1") as events:
        return [event async for event in events]


@given(st.lists(st.integers(1, 400), max_size=20), st.booleans())
def test_events_do_not_depend_on_the_borders_of_chunks(cuts: list[int], newline: bool) -> None:
    text = b"".join(event("ADDED", pod(f"päd-{n}", n, labels={"ä": "\n"})) for n in range(4))
    if not newline:
        text = text.removesuffix(b"\n")
    borders = [0, *sorted(cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(borders)]
    events = asyncio.run(read(*chunks))
    assert [(e.type, e.meta.resource_version) for e in events] == [
        ("ADDED", str(n)) for n in range(4)
    ]
    assert events[0].meta.labels == {"ä": "\n"}


async def test_asks_for_bookmarks_from_a_version_for_a_time() -> None:
    transport = ScriptedTransport.of(Script())
    async with Client(transport).watch(
        builtin.POD,
        namespace="ns",
        fields={"spec.nodeName": "n"},
        resource_version="5",
        timeout=timedelta(seconds=90),
    ) as events:
        assert [event async for event in events] == []
    assert transport.calls[0].path == "/api/v1/namespaces/ns/pods"
    assert transport.calls[0].query == {
        "fieldSelector": "spec.nodeName=n",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "90",
        "resourceVersion": "5",
    }


async def test_keeps_the_text_and_the_metadata_of_an_object() -> None:
    (found,) = await read(event("MODIFIED", pod("a", 4)))
    assert found.meta.key == ("ns", "a")
    assert found.raw.startswith(b'{"apiVersion":"v1","kind":"Pod"')


async def test_an_error_event_raises_the_error_of_its_status() -> None:
    with pytest.raises(Expired, match="too old"):
        await read(
            event("ADDED", pod("a", 4)),
            event("ERROR", status_object(410, "Expired", "too old resource version")),
        )


async def test_a_refused_watch_raises_the_error_of_its_status() -> None:
    transport = ScriptedTransport.of(failure(403, "Forbidden", "not you"))
    with pytest.raises(Forbidden, match="not you"):
        async with Client(transport).watch(builtin.POD):
            pass


async def test_a_broken_connection_raises_after_the_events_before_it() -> None:
    transport = ScriptedTransport.of(
        Script([event("ADDED", pod("a", 4)), b'{"type":"ADD'], TransportError("reset"))
    )
    async with Client(transport).watch(builtin.POD) as events:
        assert (await anext(events)).meta.name == "a"
        with pytest.raises(TransportError, match="reset"):
            await anext(events)


async def test_an_end_inside_an_event_is_no_clean_end() -> None:
    with pytest.raises(MalformedEvent):
        await read(b'{"type":"ADD')


async def test_metadata_of_a_wrong_type_keeps_its_identity() -> None:
    odd = pod("a", 4, labels=["not", "a", "map"])
    found = decode_event(event("ADDED", odd))
    assert found.meta.key == ("ns", "a")
    assert found.meta.resource_version == "4"
    assert found.error is not None
    assert "labels" in found.error


async def test_a_watch_that_outlives_its_timeout_is_dead() -> None:
    transport = ScriptedTransport.of(Script(hangs=True))
    async with transport.stream("GET", "/") as stream:
        deadline = asyncio.get_running_loop().time() + 0.01
        with pytest.raises(TransportError, match="outlived"):
            await anext(EventReader(stream.chunks, deadline=deadline))


async def test_knows_the_bookmark_that_ends_the_initial_events() -> None:
    end = pod("", 9, annotations={"k8s.io/initial-events-end": "true"})
    plain, last = await read(event("BOOKMARK", pod("", 8)), event("BOOKMARK", end))
    assert not plain.is_initial_end
    assert last.is_initial_end
