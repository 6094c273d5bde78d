"""The scale subresource of custom kinds: its paths, and what the fields there must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.field_error import invalid
from kubewright.local.apiserver.kind import ScaleMapping
from kubewright.local.apiserver.schema.json_value import format_go

_MAX_INT32 = 2**31 - 1


def build_scale_mapping(subresources: Mapping[str, Any]) -> ScaleMapping | None:
    """Read `subresources.scale` of a version."""
    scale = subresources.get("scale")
    if scale is None:
        return None
    return ScaleMapping(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath")
    )


def validate_scale(obj: Object, scale: ScaleMapping, parts: tuple[str, ...]) -> list[Cause]:
    """Return what is wrong with the replica counts and the selector of an object.

    Args:
        obj: the custom object.
        scale: where the fields are.
        parts: `spec`, `status` or both: only paths that begin so are looked at.
    """
    causes: list[Cause] = []
    for path in (scale.spec_replicas_path, scale.status_replicas_path):
        if _begins_with(path, parts):
            value, fault = _read(obj, path)
            causes += [invalid(path, 0, fault)] if fault else _validate_replicas(path, value)
    selector = scale.selector_path
    if selector and _begins_with(selector, parts):
        value, fault = _read(obj, selector)
        if fault:
            causes.append(invalid(selector, "", fault))
        elif value is not None and not isinstance(value, str):
            causes.append(invalid(selector, "", _wrong_type(selector, value, "string")))
    return causes


def _begins_with(path: str, parts: tuple[str, ...]) -> bool:
    return path.removeprefix(".").partition(".")[0] in parts


def _read(obj: Object, path: str) -> tuple[Any, str]:
    """Return what stands at a path, and why the path cannot be followed."""
    value: Any = obj
    keys = path.removeprefix(".").split(".")
    for depth, key in enumerate(keys):
        if value is None:
            break
        if not isinstance(value, dict):
            reached = "." + ".".join(keys[: depth + 1])
            return None, _wrong_type(reached, value, "map[string]interface{}")
        value = value.get(key)
    return value, ""


def _validate_replicas(path: str, value: Any) -> list[Cause]:
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        return [invalid(path, 0, _wrong_type(path, value, "int64"))]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value > _MAX_INT32:
        return [invalid(path, value, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _wrong_type(path: str, value: Any, expected: str) -> str:
    names = {bool: "bool", float: "float64", int: "int64", str: "string"}
    found = names.get(type(value), "map[string]interface {}")
    if isinstance(value, list):
        found = "[]interface {}"
    return f"{path} accessor error: {format_go(value)} is of the type {found}, expected {expected}"
