"""A kind with every sort of list and map, and a stand-in for the storing server."""

from __future__ import annotations

from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.apply import apply_object, track_update
from kubewright.local.apiserver.apply.field_set import FieldSet
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.schema.json_value import copy_value
from kubewright.local.apiserver.schema.node import compile_schema

TEXT = {"type": "string"}
METADATA = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "namespace": TEXT,
        "uid": TEXT,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "annotations": {"type": "object", "additionalProperties": TEXT},
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "managedFields": {"type": "array", "items": {"type": "object"}},
    },
}
PORT = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
    },
}
SPEC = {
    "type": "object",
    "properties": {
        "color": TEXT,
        "size": {"type": "integer"},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "atoms": {"type": "array", "items": TEXT},
        "sel": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": TEXT,
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": PORT,
        },
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
WIDGET = compile_schema(
    {
        "type": "object",
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": METADATA,
            "spec": SPEC,
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    },
    lambda name: {},
)


def widget(*, labels: dict[str, Any] | None = None, **spec: Any) -> Object:
    obj: Object = {"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    if labels is not None:
        obj["metadata"]["labels"] = labels
    if spec:
        obj["spec"] = spec
    return obj


class Store:
    """Keeps one widget; every write comes a second after the last."""

    def __init__(self) -> None:
        self.obj: Object | None = None
        self.seconds = 0

    def now(self) -> str:
        self.seconds += 1
        return f"2026-01-01T00:00:{self.seconds:02d}Z"

    def apply(self, manager: str, config: Object, *, force: bool = False, sub: str = "") -> Object:
        return self._keep(
            apply_object(
                self.obj,
                config,
                schema=WIDGET,
                manager=ManagerIdentity(manager, "demo.io/v1", sub),
                now=self.now(),
                force=force,
                default=drop_nulls,
                reset=[["status"]] if not sub else [["spec"]],
            )
        )

    def update(self, manager: str, new: Object, *, sub: str = "") -> Object:
        new = copy_value(new)
        drop_nulls(new)
        return self._keep(
            track_update(
                self.obj,
                new,
                schema=WIDGET,
                manager=ManagerIdentity(manager, "demo.io/v1", sub),
                now=self.now(),
                reset=[["status"]] if not sub else [["spec"]],
            )
        )

    def owned(self) -> dict[str, Object]:
        """Return what each manager owns, by its name."""
        return {entry["manager"]: entry["fieldsV1"] for entry in self.entries()}

    def entries(self) -> list[Object]:
        assert self.obj is not None
        entries: list[Object] = self.obj["metadata"].get("managedFields", [])
        return entries

    def _keep(self, obj: Object) -> Object:
        obj["metadata"]["uid"] = "u"
        self.obj = obj
        return obj


def drop_nulls(obj: Object) -> None:
    """Stand in for decoding: null fields are no fields."""
    for key in [key for key, value in obj.items() if value is None]:
        del obj[key]
    for value in obj.values():
        if isinstance(value, dict):
            drop_nulls(value)


def fields(*paths: str) -> FieldSet:
    """Build a set of paths, whose elements stand between slashes."""
    return FieldSet.of(path.split("/") for path in paths)
