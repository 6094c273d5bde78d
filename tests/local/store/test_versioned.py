from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.local.store import (
    Change,
    Compacted,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Retention,
    RevisionMismatch,
    VersionedStore,
)


def test_each_write_raises_the_revision_by_one() -> None:
    store = VersionedStore()
    first = store.create("/a", b"1")
    second = store.update("/a", b"2", first.revision)
    tombstone = store.delete("/a", second.revision)
    assert [first.revision, second.revision, tombstone.revision] == [2, 3, 4]
    assert second.create_revision == first.revision
    assert store.revision == 4


def test_next_revision_is_that_of_the_next_write() -> None:
    store = VersionedStore()
    expected = store.next_revision
    assert store.create("/a", b"").revision == expected


def test_create_refuses_a_key_that_is_there() -> None:
    store = VersionedStore()
    store.create("/a", b"1")
    with pytest.raises(KeyExists):
        store.create("/a", b"2")
    assert store.revision == 2


def test_update_refuses_a_revision_that_is_not_the_newest() -> None:
    store = VersionedStore()
    first = store.create("/a", b"1")
    store.update("/a", b"2", first.revision)
    with pytest.raises(RevisionMismatch):
        store.update("/a", b"3", first.revision)
    with pytest.raises(RevisionMismatch):
        store.delete("/a", first.revision)
    with pytest.raises(KeyMissing):
        store.update("/b", b"1", 1)


def test_a_deleted_key_can_be_created_again() -> None:
    store = VersionedStore()
    store.delete("/a", store.create("/a", b"1").revision)
    again = store.create("/a", b"2")
    assert again.create_revision == again.revision
    assert len(store) == 1


def test_get_reads_the_past() -> None:
    store = VersionedStore()
    first = store.create("/a", b"1")
    second = store.update("/a", b"2", first.revision)
    store.delete("/a", second.revision)
    assert store.get("/a") is None
    assert store.get("/a", 1) is None
    at_first, at_second = store.get("/a", 2), store.get("/a", 3)
    assert at_first is not None
    assert at_first.value == b"1"
    assert at_second is not None
    assert at_second.value == b"2"


def test_reads_of_the_future_are_refused() -> None:
    store = VersionedStore()
    with pytest.raises(FutureRevision):
        store.get("/a", 2)
    with pytest.raises(FutureRevision):
        store.list("/", revision=2)


def test_list_is_ordered_by_key_and_bound_to_its_prefix() -> None:
    store = VersionedStore()
    for key in ("/p/b", "/p/a.1", "/p/a", "/p/a-1", "/q/a", "/o/z"):
        store.create(key, key.encode())
    assert [item.key for item in store.list("/p/").items] == ["/p/a", "/p/a-1", "/p/a.1", "/p/b"]


def test_pages_show_the_revision_of_the_first_page() -> None:
    store = VersionedStore()
    for key in "abcd":
        store.create(f"/p/{key}", b"")
    first = store.list("/p/", limit=2)
    assert (first.remaining, [i.key for i in first.items]) == (2, ["/p/a", "/p/b"])
    version = store.get("/p/c")
    assert version is not None
    store.delete("/p/c", version.revision)
    store.create("/p/bb", b"")
    rest = store.list("/p/", revision=first.revision, start="/p/b\0")
    assert [item.key for item in rest.items] == ["/p/c", "/p/d"]


def test_compaction_refuses_older_reads_and_keeps_current_values() -> None:
    store = VersionedStore()
    first = store.create("/a", b"1")
    second = store.update("/a", b"2", first.revision)
    gone = store.create("/b", b"1")
    store.delete("/b", gone.revision)
    store.compact(store.revision)
    with pytest.raises(Compacted):
        store.get("/a", second.revision - 1)
    with pytest.raises(Compacted):
        store.changes_after(second.revision - 1)
    version = store.get("/a")
    assert version is not None
    assert version.value == b"2"
    assert [item.key for item in store.list("/").items] == ["/a"]
    assert list(store.changes_after(store.revision)) == []


def test_reads_at_the_compacted_revision_succeed() -> None:
    store = VersionedStore()
    first = store.create("/a", b"1")
    store.update("/a", b"2", first.revision)
    store.compact(first.revision)
    version = store.get("/a", first.revision)
    assert version is not None
    assert version.value == b"1"


def test_history_is_bounded_by_count() -> None:
    store = VersionedStore(retention=Retention(changes=3))
    for number in range(10):
        store.create(f"/{number}", b"")
    assert store.compacted_revision == store.revision - 3
    assert len(list(store.changes_after(store.revision - 3))) == 3


def test_history_is_bounded_by_size() -> None:
    store = VersionedStore(retention=Retention(size=10_000))
    for number in range(100):
        store.create(f"/{number}", b"x" * 1000)
    assert len(list(store.changes_after(store.compacted_revision))) < 12


def test_history_is_bounded_by_age_beyond_the_least_count() -> None:
    now = 0.0
    retention = Retention(age=timedelta(seconds=60), at_least=2)
    store = VersionedStore(retention=retention, monotonic=lambda: now)
    for number in range(5):
        store.create(f"/{number}", b"")
    now = 100.0
    store.create("/late", b"")
    assert store.compacted_revision == store.revision - 2


def test_listeners_see_changes_in_order_with_what_was_before() -> None:
    store = VersionedStore()
    seen: list[Change] = []
    stop = store.subscribe(seen.append)
    first = store.create("/a", b"1")
    second = store.update("/a", b"2", first.revision)
    store.delete("/a", second.revision)
    stop()
    stop()
    store.create("/b", b"")
    assert [change.revision for change in seen] == [2, 3, 4]
    assert [change.previous for change in seen] == [None, first, second]
    assert seen[-1].version.value is None


Operations = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "delete"])), max_size=40
)


@given(Operations, st.integers(min_value=0, max_value=40))
def test_any_kept_revision_reads_as_it_was(operations: list[tuple[str, str]], cut: int) -> None:
    store = VersionedStore()
    states: dict[int, dict[str, bytes]] = {store.revision: {}}
    model: dict[str, bytes] = {}
    for number, (key, operation) in enumerate(operations):
        current = store.get(key)
        if operation == "put":
            value = str(number).encode()
            if current is None:
                store.create(key, value)
            else:
                store.update(key, value, current.revision)
            model[key] = value
        elif current is not None:
            store.delete(key, current.revision)
            del model[key]
        states[store.revision] = dict(model)
    store.compact(min(cut, store.revision))
    for revision, state in states.items():
        if revision >= store.compacted_revision:
            found = {item.key: item.value for item in store.list("", revision=revision).items}
            assert found == state
