"""Tables, and objects reduced to their metadata (meta.k8s.io)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubewright.api.resource import Object
from kubewright.local.apiserver.kind import Column, ServedKind
from kubewright.local.storage.claim import find_default_class

# kubectl passes over such rows when it sorts out what still runs.
_ENDED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def build_columns(kind: ServedKind) -> list[Object]:
    """Build the column definitions of a kind's Table."""
    return [_column(column) for column in kind.strategy.columns()]


def _column(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def build_row(kind: ServedKind, obj: Object, include: str, version: str, now: datetime) -> Object:
    """Build the row of an object. `include` is `Metadata`, `Object` or `None`."""
    shown: Object | None = build_partial(obj, version)
    if include == "Object":
        shown = obj
    elif include == "None":
        shown = None
    row: Object = {"cells": kind.strategy.cells(obj, now), "object": shown}
    if kind.resource.plural == "pods" and not kind.resource.group:
        phase = (obj.get("status") or {}).get("phase")
        if phase in _ENDED:
            completed = {"type": "Completed", "status": "True", "reason": phase}
            row["conditions"] = [completed | {"message": _ENDED[phase]}]
    return row


def build_table(
    kind: ServedKind,
    objects: Iterable[Object],
    metadata: Object,
    *,
    include: str,
    version: str,
    now: datetime,
) -> Object:
    """Build a whole Table."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": build_columns(kind),
        "rows": [build_row(kind, obj, include, version, now) for obj in objects],
    }


def mark_default_class(table: Object, classes: Sequence[Object]) -> None:
    """Mark, in a Table of storage classes, the one that claims without a class get.

    Of several with the annotation it is the newest: only a list can tell.
    """
    default = find_default_class(classes)
    for row, storage_class in zip(table["rows"], classes, strict=True):
        if storage_class is default:
            row["cells"][0] += " (default)"


def build_partial(obj: Object, version: str) -> Object:
    """Reduce an object to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata") or {},
    }
