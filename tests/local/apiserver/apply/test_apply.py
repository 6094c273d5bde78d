from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import APIError, BadRequest, Conflict

from .widget import Store, widget


@pytest.fixture
def store() -> Store:
    return Store()


def test_owns_what_is_applied_and_not_defaults(store: Store) -> None:
    store.apply("m", widget(labels={"a": "1"}, tags=["x"], sel={}, atoms=[]))

    assert store.entries() == [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "demo.io/v1",
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:atoms": {}, "f:sel": {}, "f:tags": {'v:"x"': {}}},
            },
        }
    ]


def test_repeated_apply_changes_nothing(store: Store) -> None:
    first = store.apply("m", widget(labels={"a": "1"}, ports=[{"port": 80, "name": "web"}]))
    assert store.apply("m", widget(labels={"a": "1"}, ports=[{"port": 80, "name": "web"}])) == first


def test_forced_fields_change_hands_and_abandoned_ones_go(store: Store) -> None:
    one: dict[str, Any] = {"color": "red", "atoms": ["p"], "sel": {"k": "v"}, "tags": ["x", "y"]}
    store.apply("m1", widget(labels={"a": "1"}, **one, ports=[{"port": 80, "name": "web"}]))
    store.apply(
        "m2",
        widget(
            labels={"a": "2", "z": "1"},
            color="blue",
            tags=["y", "w"],
            ports=[{"port": 80, "name": "http"}, {"port": 443, "name": "tls"}],
        ),
        force=True,
    )
    assert store.owned()["m1"] == {
        "f:spec": {
            "f:atoms": {},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
            "f:sel": {},
            "f:tags": {'v:"x"': {}, 'v:"y"': {}},
        }
    }

    result = store.apply("m1", widget(tags=["x"]))

    assert result["metadata"]["labels"] == {"a": "2", "z": "1"}
    assert result["spec"] == {
        "color": "blue",
        "tags": ["x", "y", "w"],
        "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "tls"}],
    }
    assert store.apply("m1", widget(tags=["x"])) == result


def test_refuses_to_take_fields_and_names_them(store: Store) -> None:
    store.apply("m1", widget(color="red", ports=[{"port": 80, "name": "web"}]))
    with pytest.raises(Conflict) as refused:
        store.apply("m2", widget(color="blue", ports=[{"port": 80, "name": "http"}]))

    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "m1":\n'
        "- .spec.color\n"
        '- .spec.ports[port=80,protocol="TCP"].name'
    )
    assert refused.value.to_status()["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "m1"',
                "field": ".spec.color",
            },
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "m1"',
                "field": '.spec.ports[port=80,protocol="TCP"].name',
            },
        ]
    }


def test_conflict_names_version_of_updaters_and_subresource(store: Store) -> None:
    store.update("u", widget(color="red"))
    with pytest.raises(Conflict) as refused:
        store.apply("m", widget(color="blue"))
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "u" using demo.io/v1: .spec.color'
    )

    store.apply("s", {**widget(), "status": {"ready": 1}}, sub="status")
    with pytest.raises(Conflict, match=r'conflict with "s" with subresource "status": \.status'):
        store.apply("t", {**widget(), "status": {"ready": 2}}, sub="status")


def test_equal_values_are_shared(store: Store) -> None:
    store.apply("m1", widget(color="red"))
    store.apply("m2", widget(color="red"))
    assert set(store.owned()) == {"m1", "m2"}

    store.apply("m1", widget(size=1))
    assert store.obj is not None
    assert store.obj["spec"] == {"color": "red", "size": 1}


def test_manager_that_joins_without_a_change_has_no_time(store: Store) -> None:
    store.apply("m1", widget(color="red"))
    store.apply("m2", widget(color="red"))
    assert [entry.get("time") for entry in store.entries()] == [None, "2026-01-01T00:00:01Z"]


def test_keeps_the_name_when_nothing_is_applied_any_more(store: Store) -> None:
    store.apply("m", widget(color="red"))
    result = store.apply("m", widget())
    assert result["metadata"] == {"name": "w", "uid": "u"}


def test_status_through_the_main_resource_is_not_owned(store: Store) -> None:
    store.apply("m", {**widget(color="red"), "status": {"ready": 1}})
    assert store.owned() == {"m": {"f:spec": {"f:color": {}}}}


def test_existing_object_without_managers_gets_one_on_first_apply(store: Store) -> None:
    store.obj = {**widget(labels={"a": "1"}, color="red"), "metadata": {"name": "w", "uid": "u"}}
    store.apply("m", widget(color="red"))
    assert store.owned() == {
        "before-first-apply": {"f:spec": {".": {}, "f:color": {}}},
        "m": {"f:spec": {"f:color": {}}},
    }


def test_items_of_a_list_follow_the_configuration(store: Store) -> None:
    store.apply("m1", widget(tags=["a", "b"]))
    assert store.apply("m2", widget(tags=["c", "a"]))["spec"]["tags"] == ["c", "a", "b"]


def test_map_without_schema_is_granular_and_its_lists_atomic(store: Store) -> None:
    store.apply("m", widget(free={"l": [{"name": "x"}], "m": {"a": {"b": 1}, "e": {}}}))
    assert store.owned()["m"] == {
        "f:spec": {
            "f:free": {
                "f:l": {},
                "f:m": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:e": {}},
            }
        }
    }


def test_place_that_turns_from_map_to_scalar_conflicts(store: Store) -> None:
    store.apply("m1", widget(free={"m": {"a": {"b": 1}}}))
    with pytest.raises(Conflict, match=r": \.spec\.free\.m\.a$"):
        store.apply("m2", widget(free={"m": {"a": "leaf"}}))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"foo": 1}, ".spec.foo: field not declared in schema"),
        ({"tags": ["d", "d"]}, '.spec.tags: duplicate entries for key [="d"]'),
        (
            {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
        (
            {"ports": [{"port": 1}, None]},
            ".spec.ports: element 1: associative list with keys may not have a null element",
        ),
        ({"size": "x"}, ".spec.size: expected numeric (int or float), got string"),
        ({"on": 1}, ".spec.on: expected boolean, got &{1}"),
    ],
)
def test_refuses_what_the_schema_does_not_know(
    store: Store, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(APIError) as refused:
        store.apply("m", widget(**spec))

    assert refused.value.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            f"failed to create typed patch object (/w; demo.io/v1, Kind=Widget): {message}"
        ),
        "code": 500,
    }


def test_refuses_another_type_and_managers(store: Store) -> None:
    with pytest.raises(BadRequest, match=r"^invalid object type: demo.io/v2, Kind=Widget$"):
        store.apply("m", {**widget(), "apiVersion": "demo.io/v2"})
    with pytest.raises(BadRequest, match=r"^metadata.managedFields must be nil$"):
        store.apply("m", {**widget(), "metadata": {"name": "w", "managedFields": []}})


def test_inputs_are_not_changed(store: Store) -> None:
    config = widget(color="red", free={"a": None}, ports=[{"port": 80}])
    before = repr(config)
    live = store.apply("m", config)
    kept = repr(live)
    store.apply("m", widget(color="blue", tags=["x"]))
    assert repr(config) == before
    assert repr(live) == kept


def test_result_can_be_changed_without_changing_the_live_object(store: Store) -> None:
    live = store.apply("m", widget(color="red", tags=["a"]))
    kept = repr(live)
    again = store.apply("m", widget(color="red", tags=["a"]))
    again["spec"]["tags"].append("b")
    again["spec"]["color"] = "blue"
    assert repr(live) == kept
