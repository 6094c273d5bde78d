from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.local.apiserver.crd.definitions import NOW, definition, established, version

from kubewright.api.errors import BadRequest, Forbidden
from kubewright.local.apiserver.crd.custom_kinds import custom_kinds
from kubewright.local.apiserver.crd.lifecycle import plan_deletion
from kubewright.local.apiserver.kind import ScaleMapping, ServedKind

SPEC = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def kind(schema: dict[str, Any] | None = None, **parts: Any) -> ServedKind:
    (found,) = custom_kinds(established(version(schema or SPEC, **parts)))
    return found


def widget(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "n", "resourceVersion": "1"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **parts}


def test_serves_nothing_before_names_are_accepted() -> None:
    assert custom_kinds(definition()) == []


def test_serves_the_served_versions_under_the_stored_one() -> None:
    kinds = custom_kinds(
        established(
            version(),
            version(name="v1beta1", storage=False, deprecated=True),
            version(name="v0", storage=False, served=False),
        )
    )
    assert [k.resource.version for k in kinds] == ["v1", "v1beta1"]
    assert {k.stored_as.version for k in kinds} == {"v1"}
    assert kinds[0].deprecation_warning is None
    assert kinds[1].deprecation_warning == (
        "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"
    )
    assert kinds[0].definition == "com.example.v1.Widget"


def test_published_schema_has_identity_type_and_metadata() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"p": {"x-kubernetes-int-or-string": True}},
    }
    published = kind(schema).openapi
    assert published["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Widget", "version": "v1"}
    ]
    assert published["properties"]["p"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert published["properties"]["metadata"]["$ref"].endswith(".ObjectMeta")
    assert "anyOf" not in schema["properties"]["p"]


def test_other_versions_lose_what_the_stored_one_does_not_declare() -> None:
    old = {"type": "object", "properties": {"a": {"type": "string"}}}
    new = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "d"}},
    }
    kinds = custom_kinds(established(version(old), version(new, name="v2", storage=False)))
    assert kinds[0].convert is not None
    assert kinds[1].convert is not None
    stored = kinds[0].convert({"apiVersion": "example.com/v2", "a": "x", "b": "y"})
    assert stored == {"apiVersion": "example.com/v1", "a": "x"}
    assert kinds[1].convert(stored) == {"apiVersion": "example.com/v2", "a": "x"}


def test_decode_names_metadata_first_then_pruned_fields() -> None:
    obj = widget(spec={"size": 1, "odd": 1}, extra=1)
    obj["metadata"]["colour"] = "red"
    decoded = kind().strategy.decode(obj)
    assert decoded.unknown == ("metadata.colour", "extra", "spec.odd")


def test_decode_refuses_metadata_of_the_wrong_type() -> None:
    obj = widget()
    obj["metadata"]["labels"] = {"a": 1}
    with pytest.raises(BadRequest, match="cannot unmarshal number into Go struct field"):
        kind().strategy.decode(obj)


def test_refuses_another_kind_or_version() -> None:
    causes = kind().strategy.validate({**widget(), "kind": "Gadget"})
    assert [(cause.field, cause.message) for cause in causes] == [
        ("kind", 'Invalid value: "Gadget": must be Widget')
    ]


def test_status_subresource_separates_the_two() -> None:
    strategy = kind(subresources={"status": {}}).strategy
    created = widget(spec={"size": 1}, status={"phase": "x"})
    strategy.prepare_for_create(created)
    assert "status" not in created
    old = widget(spec={"size": 1}, status={"phase": "old"})
    main = widget(spec={"size": 2}, status={"phase": "new"})
    strategy.prepare_for_update(main, old)
    assert (main["spec"], main["status"]) == ({"size": 2}, {"phase": "old"})
    status = widget(spec={"size": 2}, status={"phase": "new"})
    status["metadata"]["labels"] = {"a": "b"}
    strategy.prepare_for_status_update(status, old)
    assert (status["spec"], status["status"]) == ({"size": 1}, {"phase": "new"})
    assert "labels" not in status["metadata"]


def test_status_writes_are_judged_by_the_status_alone() -> None:
    strategy = kind(subresources={"status": {}}).strategy
    old = widget(spec={"size": 50})
    causes = strategy.validate_status_update(widget(spec={"size": 50}, status={"phase": 1}), old)
    assert [(cause.field, cause.message) for cause in causes] == [
        (
            "status.phase",
            'Invalid value: "integer": phase in body must be of type string: "integer"',
        )
    ]


def test_updates_tolerate_what_was_wrong_before() -> None:
    strategy = kind().strategy
    old = widget(spec={"size": 50})
    assert strategy.validate_update(widget(spec={"size": 50}, more=1), old) == []
    assert len(strategy.validate_update(widget(spec={"size": 51}), old)) == 1


def test_scale_maps_paths_and_checks_counts() -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}
    served = kind(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        subresources={"scale": scale},
    )
    assert served.scale == ScaleMapping(".spec.size", ".status.ready", None)
    causes = served.strategy.validate(widget(spec={"size": -1}))
    assert [(cause.field, cause.message) for cause in causes] == [
        (".spec.size", "Invalid value: -1: should be a non-negative integer")
    ]


def test_selectable_fields_are_texts() -> None:
    strategy = kind(selectableFields=[{"jsonPath": ".spec.size"}]).strategy
    assert strategy.selectable_field_names() == {"spec.size"}
    assert strategy.selectable_fields(widget(spec={"size": 3})) == {"spec.size": "3"}
    assert strategy.selectable_fields(widget()) == {"spec.size": ""}


def test_duplicates_in_sets_and_maps_are_refused_once_they_are_new() -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {
            "m": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": items,
            }
        },
    }
    strategy = kind(schema).strategy
    twice = widget(m=[{"k": "a"}, {"k": "a"}])
    assert [cause.message for cause in strategy.validate(twice)] == ['Duplicate value: {"k":"a"}']
    assert strategy.validate_update(twice, widget(m=[{"k": "b"}, {"k": "b"}])) == []
    assert len(strategy.validate_update(twice, widget())) == 1


def test_embedded_objects_must_have_a_type() -> None:
    schema = {
        "type": "object",
        "properties": {
            "t": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        },
    }
    causes = kind(schema).strategy.validate(
        widget(t={"apiVersion": "a/b/c", "metadata": {"labels": {"x y": "z"}}})
    )
    assert {cause.field for cause in causes} == {"t.apiVersion", "t.kind", "t.metadata.labels"}


def test_nothing_is_created_while_the_definition_terminates() -> None:
    (served,) = custom_kinds(plan_deletion(established(), NOW))
    with pytest.raises(Forbidden, match="while custom resource definition is terminating"):
        served.strategy.prepare_for_create(widget())


def test_cells_follow_the_printer_columns() -> None:
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    strategy = kind(additionalPrinterColumns=[column]).strategy
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert strategy.cells(widget(spec={"size": 3}), now) == ["a", 3]
