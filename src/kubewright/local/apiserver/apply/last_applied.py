"""The annotation of client-side apply, from which kubectl's server-side apply takes over."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.compare import compare_values
from kubewright.local.apiserver.apply.field_set import EMPTY, FieldSet
from kubewright.local.apiserver.apply.typed_value import build_field_set, validate_value
from kubewright.local.apiserver.schema.node import SchemaNode

KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def has_last_applied(obj: Object) -> bool:
    """Tell whether an object carries a configuration that was last applied by a client."""
    return bool(_annotations(obj).get(LAST_APPLIED))


def build_forgiven_fields(live: Object, schema: SchemaNode, api_version: str) -> FieldSet:
    """Return the fields that kubectl may take from others without force.

    They are those that it applied from the client and that still have the value it gave them.
    """
    text = _annotations(live).get(LAST_APPLIED)
    if not text:
        return EMPTY
    try:
        last = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return EMPTY
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return EMPTY
    if validate_value(last, schema):
        return EMPTY
    changed = compare_values(last, live, schema)
    return (
        build_field_set(last, schema)
        .difference(changed.modified)
        .difference(changed.added)
        .difference(changed.removed)
    )


def update_last_applied(obj: Object, config: Object) -> Object:
    """Return the object with the annotation rewritten from what was applied."""
    config = dict(config)
    if isinstance(config.get("metadata"), dict) and _annotations(config):
        annotations = {k: v for k, v in _annotations(config).items() if k != LAST_APPLIED}
        config["metadata"] = {**config["metadata"], "annotations": annotations}
    text = msgspec.json.encode(config, order="sorted").decode() + "\n"
    annotations = {**_annotations(obj), LAST_APPLIED: text}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _annotations(obj: Object) -> dict[str, Any]:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
