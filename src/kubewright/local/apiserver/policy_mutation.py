"""The changes that a mutating policy makes: a configuration laid over the object, a JSON patch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.resource import Object
from kubewright.local.apiserver import policy_expressions as cel
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.apply.merge import merge_values
from kubewright.local.apiserver.apply.typed_value import validate_value
from kubewright.local.apiserver.patch import json_patch
from kubewright.local.apiserver.schema.node import DEDUCED, SchemaNode


class MutationFailed(Exception):
    """A change cannot be made; the text says why."""


def apply_mutation(mutation: Object, data: Object, attributes: Attributes) -> Object:
    """Return the object of a write with one change made; the one given is not changed.

    Raises:
        ExpressionFailed: the change has no value.
        MutationFailed: it does not apply, or does not fit the schema.
    """
    obj = attributes.obj or {}
    if mutation.get("patchType") == "JSONPatch":
        changed = _patch(obj, cel.evaluate_named(mutation["jsonPatch"]["expression"], data))
    else:
        value = cel.evaluate_named(mutation["applyConfiguration"]["expression"], data)
        changed = _merge(obj, value, attributes.kind.schema)
    try:
        decoded = attributes.kind.strategy.decode(changed).obj
    except BadRequest as error:
        raise MutationFailed(f"error applying patch: {error}") from error
    attributes.kind.strategy.default(decoded)
    return decoded


def _patch(obj: Object, operations: Any) -> Object:
    try:
        changed = json_patch.apply_patch(obj, operations)
    except APIError as error:
        if isinstance(error.__cause__, json_patch.TestFailed):
            # A test that fails spares the object the whole patch; it is no failure.
            return obj
        raise MutationFailed(f"JSON Patch: {error.__cause__ or error}") from error
    return changed if isinstance(changed, dict) else {}


def _merge(obj: Object, config: Any, schema: SchemaNode) -> Object:
    if faults := validate_value(config, schema):
        problem = f"failed to convert patch object to typed object: {faults[0]}"
        raise MutationFailed(f"error applying patch: {problem}")
    if atomic := list(_find_atomic(config, schema, "")):
        problem = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
        raise MutationFailed(f"error applying patch: {problem}: {', '.join(atomic)}")
    merged: Object = merge_values(obj, config, schema)
    return merged


def _find_atomic(value: Any, node: SchemaNode, path: str) -> Iterator[str]:
    """Yield the paths of values that can only be set as a whole."""
    if isinstance(value, dict):
        if node.kind == "object" and node.map_type == "atomic":
            yield path
            return
        for name, part in value.items():
            child = node.fields.get(name, node.values) if node.kind == "object" else None
            yield from _find_atomic(part, child or DEDUCED, f"{path}.{name}")
    elif isinstance(value, list):
        if node.kind != "array" or node.list_type == "atomic":
            yield path
            return
        for item in value:
            yield from _find_atomic(item, node.items, f"{path}[]")
