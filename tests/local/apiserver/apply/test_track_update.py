from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.apply import restore_times, track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity

from .widget import WIDGET, Store, widget


@pytest.fixture
def store() -> Store:
    return Store()


def stored(store: Store, **spec: Any) -> Object:
    """Return the stored object with another spec, as a client would send it back."""
    assert store.obj is not None
    return {**store.obj, "spec": spec}


def test_creator_owns_everything_it_sets(store: Store) -> None:
    store.update("c", widget(labels={"a": "1"}, color="red", ports=[{"port": 80}]))
    assert store.owned()["c"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            ".": {},
            "f:color": {},
            "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
        },
    }


def test_creator_does_not_own_what_an_empty_object_holds() -> None:
    result = track_update(
        None,
        {**widget(color="red"), "status": {}},
        schema=WIDGET,
        manager=ManagerIdentity("c", "demo.io/v1"),
        now="2026-01-01T00:00:00Z",
        empty={"metadata": {}, "spec": {}, "status": {}},
    )
    assert result["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:color": {}}}


def test_updater_takes_over_what_it_changes(store: Store) -> None:
    store.update("a", widget(color="red", size=1))
    store.update("b", stored(store, color="blue", size=1))
    assert store.owned() == {
        "a": {"f:spec": {".": {}, "f:size": {}}},
        "b": {"f:spec": {"f:color": {}}},
    }


def test_removed_fields_are_owned_by_no_one(store: Store) -> None:
    store.update("a", widget(color="red", size=1))
    store.update("b", stored(store, size=1))
    assert store.owned() == {"a": {"f:spec": {".": {}, "f:size": {}}}}


def test_update_without_a_change_keeps_managers_and_times(store: Store) -> None:
    first = store.update("a", widget(color="red"))
    assert store.update("b", stored(store, color="red")) == first


def test_object_created_empty_is_not_tracked_later(store: Store) -> None:
    store.update("a", widget())
    store.update("b", stored(store, color="red"))
    assert store.entries() == []


def test_status_writer_is_its_own_manager(store: Store) -> None:
    store.update("a", widget(color="red"))
    store.update("a", {**stored(store, color="red"), "status": {"ready": 1}}, sub="status")
    assert [(e["manager"], e.get("subresource")) for e in store.entries()] == [
        ("a", None),
        ("a", "status"),
    ]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_empty_managers_reset_tracking(store: Store, sent: list[Object]) -> None:
    store.update("a", widget(color="red"))
    new = stored(store, color="blue")
    new["metadata"] = {**new["metadata"], "managedFields": sent}
    store.update("b", new)
    assert store.entries() == []


def test_managers_that_cannot_be_read_are_passed_over(store: Store) -> None:
    store.update("a", widget(color="red"))
    new = stored(store, color="blue")
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}
    new["metadata"] = {**new["metadata"], "managedFields": [entry]}
    store.update("b", new)
    assert set(store.owned()) == {"a", "b"}


def test_managers_with_unknown_elements_own_nothing(store: Store) -> None:
    store.update("a", widget(color="red"))
    new = stored(store, color="red")
    entry = {
        "manager": "x",
        "operation": "Update",
        "apiVersion": "demo.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"x:bad": {}},
    }
    new["metadata"] = {**new["metadata"], "managedFields": [entry]}
    store.update("b", new)
    assert store.entries() == []


def test_subresource_writes_cannot_set_managers(store: Store) -> None:
    store.update("a", widget(color="red"))
    new = {**stored(store, color="red"), "status": {"ready": 1}}
    new["metadata"] = {**new["metadata"], "managedFields": []}
    store.update("s", new, sub="status")
    assert set(store.owned()) == {"a", "s"}


def test_oldest_updaters_become_ancient_changes(store: Store) -> None:
    store.update("creator", widget(tags=["t"]))
    for number in range(11):
        tags = ["t", *(f"t{i}" for i in range(number + 1))]
        store.update(f"u{number}", stored(store, tags=tags))

    names = [entry["manager"] for entry in store.entries()]
    assert len(names) == 10
    assert names[0] == "ancient-changes"
    ancient = store.owned()["ancient-changes"]["f:spec"]["f:tags"]
    assert {'v:"t0"', 'v:"t1"', 'v:"t"'} <= set(ancient)


def test_times_alone_are_no_change(store: Store) -> None:
    live = store.update("a", widget(color="red"))
    entry = {**live["metadata"]["managedFields"][0], "time": "2030-01-01T00:00:00Z"}
    new = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert restore_times(live, new) == live
    changed = {**new, "spec": {"color": "blue"}}
    assert restore_times(live, changed) is changed


def test_fields_below_what_became_atomic_are_owned_as_one(store: Store) -> None:
    store.update("a", widget(color="red", sel={"x": "1"}))
    entries = store.entries()
    entries[0]["fieldsV1"]["f:spec"]["f:sel"] = {"f:x": {}}
    store.update("b", stored(store, color="blue", sel={"x": "1"}))
    assert store.owned()["a"]["f:spec"]["f:sel"] == {}
