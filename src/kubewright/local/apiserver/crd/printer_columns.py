"""Table columns of custom resources: `additionalPrinterColumns` (kubectl get)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.apiserver.builtin.table import format_duration
from kubewright.local.apiserver.crd.json_path import JSONPath
from kubewright.local.apiserver.crd.violation import format_value
from kubewright.local.apiserver.kind import Column

_NAME = Column(
    "Name",
    "string",
    "name",
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_AGE: Mapping[str, Any] = {
    "name": "Age",
    "type": "date",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was "
        "created. It is not guaranteed to be set in happens-before order across separate "
        "operations. Clients may not set this value. It is represented in RFC3339 form and is in "
        "UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
        "#metadata"
    ),
    "jsonPath": ".metadata.creationTimestamp",
}


class PrinterColumns:
    """The columns of one version of a CRD, and the cells of its objects."""

    def __init__(self, declared: list[Mapping[str, Any]]) -> None:
        """Compile the columns; without any, an Age column is shown."""
        self._columns = [_NAME]
        self._paths: list[tuple[JSONPath, str]] = []
        for column in declared or [_AGE]:
            path = column["jsonPath"]
            described = f"Custom resource definition column (in JSONPath format): {path}"
            self._columns.append(
                Column(
                    column["name"],
                    column["type"],
                    column.get("format") or "",
                    column.get("description") or described,
                    column.get("priority") or 0,
                )
            )
            self._paths.append((JSONPath(path), column["type"]))

    def columns(self) -> list[Column]:
        """Return the columns, the name first."""
        return list(self._columns)

    def cells(self, obj: Object, now: datetime) -> list[Any]:
        """Return the cells of an object; None where a path finds nothing fit for its column."""
        name = (obj.get("metadata") or {}).get("name") or ""
        return [name, *(_cell(path.first(obj), type_, now) for path, type_ in self._paths)]


def _cell(value: Any, column_type: str, now: datetime) -> Any:
    if value is None:
        return None
    if column_type == "string":
        return value if isinstance(value, str) else format_value(value)
    if column_type == "date":
        return _age(value, now)
    if column_type == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if column_type == "integer" else value


def _age(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    with contextlib.suppress(ValueError):
        return format_duration(int((now - parse_time(value)).total_seconds()))
    return "<invalid>"
