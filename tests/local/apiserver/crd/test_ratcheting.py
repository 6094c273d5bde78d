from __future__ import annotations

from typing import Any

import pytest

from kubewright.local.apiserver.crd.ratcheting import drop_unchanged
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import format_path

ITEM = {
    "type": "object",
    "required": ["k"],
    "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 10}},
}
SCHEMA = StructuralSchema(
    {
        "type": "object",
        "required": ["must"],
        "properties": {
            "size": {"type": "integer", "maximum": 10},
            "must": {"type": "string"},
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": ITEM,
            },
            "plain": {"type": "array", "items": ITEM},
        },
    }
)


@pytest.mark.parametrize(
    ("new", "old", "left"),
    [
        ({"size": 50, "must": ""}, {"size": 50}, []),
        ({"size": 51, "must": ""}, {"size": 50}, ["size"]),
        ({"size": 50}, {"size": 50, "x": 1}, ["must"]),
        (
            {"must": "", "list": [{"k": "c"}, {"k": "a", "v": 50}]},
            {"list": [{"k": "a", "v": 50}]},
            [],
        ),
        (
            {"must": "", "list": [{"k": "a", "v": 60}]},
            {"list": [{"k": "a", "v": 50}]},
            ["list[0].v"],
        ),
        (
            {"must": "", "plain": [{"k": "c"}, {"k": "a", "v": 50}]},
            {"plain": [{"k": "a", "v": 50}]},
            ["plain[1].v"],
        ),
        ({"must": "", "plain": [{"k": "a", "v": 50}]}, {"plain": [{"k": "a", "v": 50}]}, []),
    ],
)
def test_tolerates_what_is_unchanged(
    new: dict[str, Any], old: dict[str, Any], left: list[str]
) -> None:
    violations = drop_unchanged(SCHEMA.validate(new), SCHEMA, new, old)
    assert [format_path(v.field) for v in violations if v.field is not None] == left
