"""An apply is idle when the manager owns exactly what it wants, and it is there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubewright.api.resource import Object
from kubewright.runtime.owned_fields import extract_owned, find_entry, is_applied, project

MANAGER = "pool-operator"

DESIRED: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "pool", "namespace": "default", "labels": {"app": "pool"}},
    "spec": {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "args": ["a", "b"],
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": "1000m"}},
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            }
        },
    },
}

FIELDS: Object = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"main"}': {
                        ".": {},
                        "f:name": {},
                        "f:args": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                            }
                        },
                        "f:resources": {"f:requests": {"f:cpu": {}}},
                        "f:volumeMounts": {
                            'k:{"mountPath":"/tmp"}': {
                                ".": {},
                                "f:name": {},
                                "f:mountPath": {},
                            }
                        },
                    }
                },
                "f:volumes": {'k:{"name":"tmp"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
            }
        },
    },
}


def build_live() -> Object:
    """Build the object as a server would hold it: defaulted, normalised, with managed fields."""
    live = copy.deepcopy(DESIRED)
    live["metadata"] |= {
        "uid": "1",
        "managedFields": [
            {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "apps/v1"},
            {
                "manager": MANAGER,
                "operation": "Apply",
                "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": copy.deepcopy(FIELDS),
            },
        ],
    }
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["imagePullPolicy"] = "Always"
    container["ports"][0]["protocol"] = "TCP"
    container["resources"]["requests"]["cpu"] = "1"
    live["spec"]["progressDeadlineSeconds"] = 600
    live["status"] = {"replicas": 3}
    return live


def at(obj: Object, *path: str | int) -> Any:
    value: Any = obj
    for part in path:
        value = value[part]
    return value


def fields_of(live: Object) -> Object:
    fields: Object = live["metadata"]["managedFields"][1]["fieldsV1"]
    return fields


def test_defaults_and_canonical_quantities_are_no_difference() -> None:
    assert is_applied(DESIRED, build_live(), MANAGER)


def test_unknown_to_another_manager() -> None:
    assert not is_applied(DESIRED, build_live(), "someone-else")


CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("spec",), "replicas", 4),
        (("metadata", "labels"), "app", "other"),
        (CONTAINER, "args", ["a"]),
        (CONTAINER, "args", ["b", "a"]),
        ((*CONTAINER, "resources", "requests"), "cpu", "2"),
        ((*CONTAINER, "ports", 0), "containerPort", 81),
        ((*CONTAINER, "volumeMounts", 0), "name", "other"),
    ],
)
def test_a_changed_live_value_is_a_difference(
    path: tuple[str | int, ...], key: str, value: Any
) -> None:
    live = build_live()
    at(live, *path)[key] = value
    assert not is_applied(DESIRED, live, MANAGER)


def test_a_field_more_is_a_difference() -> None:
    desired = copy.deepcopy(DESIRED)
    desired["spec"]["minReadySeconds"] = 1
    assert not is_applied(desired, build_live(), MANAGER)


def test_a_field_less_is_a_difference_since_it_must_be_given_up() -> None:
    desired = copy.deepcopy(DESIRED)
    del desired["spec"]["replicas"]
    assert not is_applied(desired, build_live(), MANAGER)


def test_an_item_less_is_a_difference() -> None:
    desired = copy.deepcopy(DESIRED)
    desired["spec"]["template"]["spec"]["volumes"] = []
    assert not is_applied(desired, build_live(), MANAGER)


def test_a_field_that_another_manager_took_is_a_difference() -> None:
    live = build_live()
    del fields_of(live)["f:spec"]["f:replicas"]
    assert not is_applied(DESIRED, live, MANAGER)


def test_a_field_of_another_manager_is_no_difference() -> None:
    live = build_live()
    live["metadata"]["annotations"] = {"who": "me"}
    at(live, *CONTAINER)["env"] = [{"name": "A", "value": "1"}]
    assert is_applied(DESIRED, live, MANAGER)


def test_equal_amounts_are_different_texts_where_no_quantity_is_meant() -> None:
    desired: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"x": "1000m"},
    }
    live = copy.deepcopy(desired)
    live["data"]["x"] = "1"
    fields: Object = {"f:data": {"f:x": {}}}
    live["metadata"]["managedFields"] = [
        {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}
    ]
    assert not is_applied(desired, live, MANAGER)


def test_sets_compare_without_order() -> None:
    desired: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "finalizers": ["x/1", "x/2"]},
    }
    live = copy.deepcopy(desired)
    live["metadata"]["finalizers"] = ["other/3", "x/2", "x/1"]
    fields: Object = {"f:metadata": {"f:finalizers": {'v:"x/1"': {}, 'v:"x/2"': {}}}}
    live["metadata"]["managedFields"] = [
        {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}
    ]
    assert is_applied(desired, live, MANAGER)
    live["metadata"]["finalizers"].remove("x/1")
    assert not is_applied(desired, live, MANAGER)


def test_the_entry_of_a_subresource_is_another_one() -> None:
    live = build_live()
    live["metadata"]["managedFields"][1]["subresource"] = "status"
    assert find_entry(live, MANAGER) is None
    assert find_entry(live, MANAGER, subresource="status") is not None


def test_extracts_what_a_manager_applied() -> None:
    live = build_live()
    expected = copy.deepcopy(DESIRED)
    container = at(expected, *CONTAINER)
    container["resources"]["requests"]["cpu"] = "1"
    del expected["apiVersion"], expected["kind"]
    expected["metadata"] = {"labels": {"app": "pool"}}
    assert extract_owned(live, MANAGER) == expected
    assert extract_owned(live, "someone-else") == {}


def test_projects_the_paths_of_the_desired_object() -> None:
    assert project({"a": {"b": 1}, "l": [1]}, {"a": {"b": 2, "c": 3}, "l": [4, 5], "z": 0}) == {
        "a": {"b": 2},
        "l": [4, 5],
    }


def map_with(fields: Object, **rest: Any) -> Object:
    entry = {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}
    metadata = {"name": "m", "managedFields": [entry]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **rest}


def test_an_empty_list_with_keys_is_not_owned_and_what_others_put_in_it_stays() -> None:
    desired = map_with({}, data={"a": "1"}, items=[], deep={"items": []})
    del desired["metadata"]["managedFields"]
    live = map_with({"f:data": {"f:a": {}}}, data={"a": "1"}, items=[{"name": "theirs"}])
    assert is_applied(desired, live, MANAGER)
    assert not is_applied({**desired, "items": [{"name": "ours"}]}, live, MANAGER)


@pytest.mark.parametrize("zero", ["", 0, False, {}, []])
def test_what_is_empty_or_zero_may_be_left_out_by_the_server(zero: Any) -> None:
    desired = map_with({}, field=zero)
    del desired["metadata"]["managedFields"]
    live = map_with({"f:field": {}})
    assert is_applied(desired, live, MANAGER)
    assert not is_applied({**desired, "field": 5}, live, MANAGER)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"selector": {"app": "a", "tier": "b"}}, {"selector": {"app": "a"}}),
        ({"nodeSelector": {"zone": "a"}}, {"nodeSelector": {}}),
        ({"rules": [{"host": "a", "http": {}}]}, {"rules": [{"http": {}}]}),
        ({"ports": [{"port": 80, "protocol": "UDP"}]}, {"ports": [{"port": 80}]}),
        ({"peers": [{"podSelector": {}, "ports": []}]}, {"peers": [{"ports": []}]}),
    ],
)
def test_what_is_taken_out_of_a_value_that_is_owned_as_a_whole_is_a_change(
    before: Object, after: Object
) -> None:
    """The entry is the same before and after: it names the value and not what is in it."""
    (field,) = before
    live = map_with({f"f:{field}": {}}, **before)
    for value, expected in ((before, True), (after, False)):
        desired = map_with({}, **value)
        del desired["metadata"]["managedFields"]
        assert is_applied(desired, live, MANAGER) is expected


def test_known_defaults_inside_a_value_that_is_owned_as_a_whole_are_no_change() -> None:
    wanted = [{"spec": {"accessModes": ["ReadWriteOnce"]}}]
    stored = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]
    live = map_with({"f:claims": {}}, claims=stored)
    desired = map_with({}, claims=wanted)
    del desired["metadata"]["managedFields"]
    assert is_applied(desired, live, MANAGER)


def test_the_order_of_items_with_keys_is_a_change_and_others_items_between_them_are_none() -> None:
    fields: Object = {"f:items": {f'k:{{"name":"{name}"}}': {"f:name": {}} for name in "ab"}}
    live = map_with(fields, items=[{"name": "a"}, {"name": "theirs"}, {"name": "b"}])
    for names, expected in (("ab", True), ("ba", False)):
        desired = map_with({}, items=[{"name": name} for name in names])
        del desired["metadata"]["managedFields"]
        assert is_applied(desired, live, MANAGER) is expected


def test_an_item_with_a_key_of_its_own_is_not_taken_for_one_with_a_default() -> None:
    fields: Object = {
        "f:ports": {
            'k:{"port":80,"protocol":"SCTP"}': {"f:port": {}, "f:protocol": {}},
            'k:{"port":80,"protocol":"TCP"}': {"f:port": {}},
        }
    }
    ports = [{"port": 80}, {"port": 80, "protocol": "SCTP"}]
    live = map_with(fields, ports=[{"port": 80, "protocol": "TCP"}, ports[1]])
    desired = map_with({}, ports=ports)
    del desired["metadata"]["managedFields"]
    assert is_applied(desired, live, MANAGER)


def reference(uid: str, **fields: object) -> Object:
    return {"apiVersion": "v1", "kind": "Pool", "name": "pool", "uid": uid, **fields}


OWN = reference("u1", controller=True)


@pytest.mark.parametrize(
    ("wanted", "owned", "stored", "expected"),
    [
        ([OWN], ["u1"], [OWN], True),
        ([OWN], ["u1"], [reference("u2"), OWN], True),  # another's stands beside it
        ([OWN], [], [OWN], False),  # another manager took it over
        ([OWN], ["u2"], [reference("u2")], False),  # of the former owner
        ([OWN], ["u1"], [], False),
        ([OWN], ["u1"], [reference("u1")], False),
        ([], ["u1"], [OWN], False),  # no longer wanted
        ([{"kind": "Pool"}], ["u1"], [OWN], False),  # a user's own, and wrong
        ([], [], [OWN], True),
    ],
)
def test_owner_references_are_compared_by_uid(
    wanted: list[Object], owned: list[str], stored: list[Object], expected: bool
) -> None:
    live, desired = build_live(), copy.deepcopy(DESIRED)
    live["metadata"]["ownerReferences"] = stored
    if owned:
        paths: Object = {f'k:{{"uid":"{uid}"}}': {} for uid in owned}
        fields_of(live)["f:metadata"]["f:ownerReferences"] = {".": {}, **paths}
    if wanted:
        desired["metadata"]["ownerReferences"] = wanted

    assert is_applied(desired, live, MANAGER) is expected


def test_references_may_be_all_that_is_owned_of_the_metadata() -> None:
    live, desired = build_live(), copy.deepcopy(DESIRED)
    live["metadata"]["ownerReferences"] = [OWN]
    fields_of(live)["f:metadata"] = {"f:ownerReferences": {'k:{"uid":"u1"}': {}}}
    del desired["metadata"]["labels"]
    desired["metadata"]["ownerReferences"] = [OWN]

    assert is_applied(desired, live, MANAGER)
