from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.cache import Change, ChangeType, Entry, Store
from kubewright.client import RawObject
from kubewright.client.objects import decode_raw_object
from tests.client.scripted_transport import FakeClock, pod

KEY = NamespacedName("ns", "a")
SECOND = timedelta(seconds=1)


def raw(obj: dict[str, Any]) -> RawObject:
    return decode_raw_object(msgspec.json.encode(obj))


def store_of(*objects: dict[str, Any], version: str = "10") -> Store:
    store = Store(builtin.POD)
    store.replace([raw(obj) for obj in objects], version)
    return store


def listen(store: Store) -> list[Change]:
    changes: list[Change] = []
    store.subscribe(changes.append)
    return changes


def told(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(c.type.value, c.entry.key.name, c.entry.meta.resource_version) for c in changes]


def test_is_synced_by_its_first_list_even_an_empty_one() -> None:
    store = Store(builtin.POD)
    states = [(store.synced, store.resource_version)]
    store.replace([], "5")
    states.append((store.synced, store.resource_version))
    assert states == [(False, ""), (True, "5")]


def test_a_list_replaces_the_content_and_tells_what_vanished() -> None:
    store = store_of(pod("a", 1), pod("b", 2), pod("c", 3))
    changes = listen(store)
    store.replace([raw(pod("b", 2)), raw(pod("c", 12)), raw(pod("d", 13))], "15")
    assert told(changes) == [("DELETED", "a", "1"), ("MODIFIED", "c", "12"), ("ADDED", "d", "13")]
    assert [entry.key.name for entry in store.list()] == ["b", "c", "d"]
    assert changes[1].old is not None
    assert changes[1].old.meta.resource_version == "3"


def test_an_object_made_again_under_its_name_is_deleted_and_added() -> None:
    store = store_of(pod("a", 1, uid="first"))
    changes = listen(store)
    store.put(raw(pod("a", 12, uid="second")))
    assert told(changes) == [("DELETED", "a", "1"), ("ADDED", "a", "12")]
    assert store.get(KEY) is not None


def test_ignores_events_that_the_list_contains_already() -> None:
    store = store_of(pod("a", 8), version="10")
    changes = listen(store)
    store.put(raw(pod("a", 7)))
    store.put(raw(pod("gone", 9)))
    store.remove(raw(pod("a", 6)))
    assert changes == []
    assert [entry.meta.resource_version for entry in store.list()] == ["8"]


def test_compares_versions_as_numbers() -> None:
    store = store_of(pod("a", 9), version="9")
    store.put(raw(pod("a", 10)))
    assert store.list()[0].meta.resource_version == "10"
    store.put(raw(pod("a", 9)))
    assert store.list()[0].meta.resource_version == "10"
    assert store.resource_version == "10"


def test_takes_opaque_versions_in_the_order_they_come() -> None:
    store = store_of(pod("a", "x"), version="x")
    store.put(raw(pod("a", "b")))
    assert store.list()[0].meta.resource_version == "b"
    assert store.resource_version == "b"


def test_a_deletion_carries_the_last_state_and_the_one_before() -> None:
    store = store_of(pod("a", 1))
    changes = listen(store)
    store.remove(raw(pod("a", 11, deletionTimestamp="2026-01-01T00:00:00Z")))
    assert told(changes) == [("DELETED", "a", "11")]
    assert changes[0].entry.meta.is_deleting
    assert changes[0].old is not None
    assert changes[0].old.meta.resource_version == "1"
    assert store.get(KEY) is None


def test_a_deletion_that_carries_the_version_of_the_last_state_counts() -> None:
    store = store_of(pod("a", 9), version="10")
    store.remove(raw(pod("a", 9)))
    assert store.list() == []


def test_entries_give_items_of_lists_their_type_back() -> None:
    bare = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}}
    entry = store_of(bare).list()[0]
    assert entry.object() == {"apiVersion": "v1", "kind": "Pod", **bare}
    assert entry.object() is not entry.object()


def test_finds_by_namespace_labels_and_owner() -> None:
    owner = {"apiVersion": "v1", "kind": "X", "name": "o", "uid": "boss", "controller": True}
    store = store_of(
        pod("a", 1, labels={"app": "web", "tier": "1"}),
        pod("b", 2, labels={"app": "db"}, ownerReferences=[owner]),
        {"metadata": {"name": "a", "namespace": "other", "resourceVersion": "3"}},
    )
    assert [str(e.key) for e in store.list(namespace="ns")] == ["ns/a", "ns/b"]
    assert [str(e.key) for e in store.list(labels={"app": "web"})] == ["ns/a"]
    assert [str(e.key) for e in store.owned_by("boss")] == ["ns/b"]
    store.put(raw(pod("b", 11)))
    assert store.owned_by("boss") == []
    store.remove(raw(pod("a", 12)))
    assert [str(e.key) for e in store.list(namespace="ns")] == ["ns/b"]


def test_indexes_follow_from_before_and_after_their_making() -> None:
    def node(entry: Entry) -> list[str]:
        return [entry.object().get("spec", {}).get("nodeName", "")]

    store = store_of({**pod("a", 1), "spec": {"nodeName": "n1"}})
    store.add_index("node", node)
    assert [e.key.name for e in store.by_index("node", "n1")] == ["a"]
    store.put(raw({**pod("a", 11), "spec": {"nodeName": "n2"}}))
    assert store.by_index("node", "n1") == []
    assert [e.meta.resource_version for e in store.by_index("node", "n2")] == ["11"]
    with pytest.raises(ValueError, match="has an index 'node' already"):
        store.add_index("node", node)


def test_an_index_that_fails_on_one_object_still_finds_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = store_of(pod("a", 1), {**pod("b", 2), "spec": {"nodeName": "n"}})
    with caplog.at_level(logging.ERROR):
        store.add_index("node", lambda entry: [entry.object()["spec"]["nodeName"]])
    assert [e.key.name for e in store.by_index("node", "n")] == ["b"]
    assert "index node cannot tell" in caplog.text


@pytest.mark.parametrize("type", [RuntimeError, asyncio.CancelledError])
def test_a_listener_that_fails_does_not_keep_others_from_hearing(
    caplog: pytest.LogCaptureFixture, type: type[BaseException]
) -> None:
    store = store_of()

    def fail(change: Change) -> None:
        raise type("listener is broken")

    store.subscribe(fail)
    changes = listen(store)
    store.put(raw(pod("a", 11)))
    assert told(changes) == [("ADDED", "a", "11")]
    assert "listener is broken" in caplog.text


def test_a_listener_reads_the_newer_state() -> None:
    store = store_of(pod("a", 1))
    seen: list[Entry | None] = []
    store.subscribe(lambda change: seen.append(store.get(change.entry.key)))
    store.remove(raw(pod("a", 11)))
    assert seen == [None]


def test_nothing_is_told_after_the_end_of_a_subscription() -> None:
    store = store_of()
    changes: list[Change] = []
    unsubscribe = store.subscribe(changes.append)
    unsubscribe()
    unsubscribe()
    store.put(raw(pod("a", 11)))
    assert changes == []


def test_scopes_are_replaced_one_by_one() -> None:
    store = Store(builtin.POD, scopes=("ns", "other"))
    elsewhere = {"metadata": {"name": "x", "namespace": "other", "resourceVersion": "3"}}
    store.replace([raw(pod("a", 1))], "9", scope="ns")
    states = [(store.synced, store.resource_version)]
    store.replace([raw(elsewhere)], "5", scope="other")
    states.append((store.synced, store.resource_version))
    assert states == [(False, ""), (True, "5")]
    changes = listen(store)
    store.replace([], "12", scope="ns")
    assert told(changes) == [("DELETED", "a", "1")]
    assert len(store) == 1


def test_an_unreadable_object_is_kept_with_its_error() -> None:
    store = store_of(pod("a", 1, labels=[]))
    entry = store.get(KEY)
    assert entry is not None
    assert entry.error is not None
    assert entry.object()["metadata"]["labels"] == []


async def test_wait_for_returns_at_once_for_what_is_seen() -> None:
    store = store_of(pod("a", 8), version="10")
    assert await store.wait_for(KEY, "8", SECOND)
    assert await store.wait_for(NamespacedName("ns", "gone"), "10", SECOND)


async def test_wait_for_ends_when_the_event_or_a_bookmark_comes() -> None:
    store = store_of()
    async with asyncio.TaskGroup() as group:
        event = group.create_task(store.wait_for(KEY, "11", SECOND))
        bookmark = group.create_task(store.wait_for(KEY, "19", SECOND))
        await asyncio.sleep(0)
        store.put(raw(pod("a", 11)))
        assert await event
        assert not bookmark.done()
        store.observe("20")
        assert await bookmark


async def test_wait_for_gives_up_after_its_time() -> None:
    clock = FakeClock()
    store = Store(builtin.POD, clock=clock)
    assert not await store.wait_for(KEY, "11", timedelta(seconds=5))
    assert clock.sleeps == [5.0]


async def test_wait_for_an_opaque_version_waits_for_that_version() -> None:
    store = store_of(version="x")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(store.wait_for(KEY, "b", SECOND))
        await asyncio.sleep(0)
        store.put(raw(pod("other", "c")))
        await asyncio.sleep(0)
        assert not waiting.done()
        store.put(raw(pod("a", "b")))
        assert await waiting


def test_change_types_are_those_of_the_api() -> None:
    assert [type.value for type in ChangeType] == ["ADDED", "MODIFIED", "DELETED"]
