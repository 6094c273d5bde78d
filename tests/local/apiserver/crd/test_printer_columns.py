from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubewright.local.apiserver.crd.printer_columns import PrinterColumns

NOW = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)


def cells(type_: str, value: Any) -> Any:
    columns = PrinterColumns([{"name": "C", "type": type_, "jsonPath": ".spec.c"}])
    return columns.cells({"metadata": {"name": "n"}, "spec": {"c": value}}, NOW)[1]


def test_shows_name_and_age_where_no_column_is_declared() -> None:
    columns = PrinterColumns([])
    obj = {"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert [column.name for column in columns.columns()] == ["Name", "Age"]
    assert columns.cells(obj, NOW) == ["n", "7s"]


def test_strings_show_any_value_as_text() -> None:
    assert cells("string", "text") == "text"
    assert cells("string", 5) == "5"
    assert cells("string", True) == "true"
    assert cells("string", {"k": "v"}) == '{"k":"v"}'
    assert cells("string", None) is None


def test_other_types_show_only_what_fits() -> None:
    assert cells("integer", 5) == 5
    assert cells("integer", "text") is None
    assert cells("number", 1.5) == 1.5
    assert cells("boolean", True) is True
    assert cells("boolean", "yes") is None
    assert cells("integer", True) is None


def test_dates_are_ages() -> None:
    assert cells("date", "2025-12-31T23:59:00Z") == "67s"
    assert cells("date", "tomorrow") == "<invalid>"
    assert cells("date", 5) is None


def test_describes_a_column_by_its_path_unless_told_otherwise() -> None:
    declared = {"name": "C", "type": "string", "jsonPath": ".spec.c", "priority": 1}
    column = PrinterColumns([declared]).columns()[1]
    assert column.description == "Custom resource definition column (in JSONPath format): .spec.c"
    assert column.priority == 1
