"""Rules of defaults in schemas: a default must itself be a valid, pruned value."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.embedded_resource import validate_embedded_resources
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.field_error import forbidden, invalid


def validate_defaults(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the defaults of a structural schema."""
    root = StructuralSchema(schema)
    # What stands at the root is a whole object as well.
    root.is_embedded_resource = True
    return _walk(root, path, in_metadata=False, is_root=True)


def _walk(
    node: StructuralSchema, path: str, *, in_metadata: bool, is_root: bool = False
) -> list[Cause]:
    causes: list[Cause] = []
    if node.has_default:
        if in_metadata:
            causes.append(forbidden(f"{path}.default", "must not be set in top-level metadata"))
        else:
            causes += _validate_default(node, f"{path}.default")
    for name, child in node.properties.items():
        inside = in_metadata or (is_root and name == "metadata")
        causes += _walk(child, f"{path}.properties[{name}]", in_metadata=inside)
    if node.items is not None:
        causes += _walk(node.items, f"{path}.items", in_metadata=in_metadata)
    if node.additional is not None:
        causes += _walk(node.additional, f"{path}.additionalProperties", in_metadata=in_metadata)
    return causes


def _validate_default(node: StructuralSchema, field: str) -> list[Cause]:
    value = copy.deepcopy(node.default_value)
    if node.prune_value(value):
        return [invalid(field, node.default_value, "must not have unknown fields")]
    # Defaults inside the default count: the server fills them in before it looks.
    node.default(value)
    causes = [violation.to_cause(field) for violation in node.validate(value)]
    return causes + validate_embedded_resources(node, value, field)
