from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import Conflict
from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.apply import apply_object
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.schema.node import SchemaNode, compile_schema

from .widget import METADATA, TEXT, drop_nulls

COLOR = {"demo.io/v1": "color", "demo.io/v2": "paint"}


def schema(api_version: str) -> SchemaNode:
    return compile_schema(
        {
            "type": "object",
            "properties": {
                "apiVersion": TEXT,
                "kind": TEXT,
                "metadata": METADATA,
                "spec": {
                    "type": "object",
                    "properties": {COLOR[api_version]: TEXT, "size": {"type": "integer"}},
                },
            },
        },
        lambda name: {},
    )


class Renaming:
    """Two versions that call one field by different names."""

    def schema(self, api_version: str) -> SchemaNode | None:
        return schema(api_version) if api_version in COLOR else None

    def convert(self, obj: Object, api_version: str) -> Object:
        old, new = COLOR[obj["apiVersion"]], COLOR[api_version]
        spec = {new if key == old else key: value for key, value in obj.get("spec", {}).items()}
        return {**obj, "apiVersion": api_version, "spec": spec}


def apply(live: Object | None, version: str, manager: str, **spec: Any) -> Object:
    api_version = f"demo.io/{version}"
    if live is not None and live["apiVersion"] != api_version:
        live = Renaming().convert(live, api_version)
    config: Object = {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}}
    return apply_object(
        live,
        {**config, "spec": spec},
        schema=schema(api_version),
        manager=ManagerIdentity(manager, api_version),
        now="2026-01-01T00:00:00Z",
        force=False,
        default=drop_nulls,
        versions=Renaming(),
    )


def owned(obj: Object) -> dict[str, tuple[str, Object]]:
    entries = obj["metadata"]["managedFields"]
    return {entry["manager"]: (entry["apiVersion"], entry["fieldsV1"]) for entry in entries}


def test_fields_of_another_version_are_in_conflict() -> None:
    live = apply(None, "v1", "m", color="red")
    with pytest.raises(Conflict, match=r'conflict with "m": \.spec\.color$'):
        apply(live, "v2", "n", paint="blue")


def test_equal_values_are_shared_across_versions() -> None:
    live = apply(None, "v1", "m", color="red")
    result = apply(live, "v2", "n", paint="red")
    assert owned(result) == {
        "m": ("demo.io/v1", {"f:spec": {"f:color": {}}}),
        "n": ("demo.io/v2", {"f:spec": {"f:paint": {}}}),
    }


def test_applier_that_moves_to_another_version_gives_up_by_the_old_names() -> None:
    live = apply(None, "v1", "m", color="red", size=1)
    result = apply(live, "v2", "m", size=1)
    assert result["spec"] == {"size": 1}
    assert owned(result) == {"m": ("demo.io/v2", {"f:spec": {"f:size": {}}})}


def test_applier_that_moves_keeps_what_it_still_applies() -> None:
    live = apply(None, "v1", "m", color="red", size=1)
    result = apply(live, "v2", "m", paint="red")
    assert result["spec"] == {"paint": "red"}


def test_managers_of_a_version_that_is_gone_are_dropped() -> None:
    live = apply(None, "v1", "m", color="red")
    live["metadata"]["managedFields"][0]["apiVersion"] = "demo.io/v0"
    assert set(owned(apply(live, "v1", "n", color="blue"))) == {"n"}
