"""Expression rules of schemas: `x-kubernetes-validations` (KEP-2876), evaluated on objects."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.cel_values import to_cel
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.violation import NO_FIELD, format_value

if TYPE_CHECKING:
    from kubewright.local.apiserver.crd.cel_rule import Outcome, Rule

_RULES = "x-kubernetes-validations"
_VALUE_REASONS = frozenset({"FieldValueInvalid"})


def is_cel_available() -> bool:
    """Tell whether the evaluator of expression rules is installed."""
    names = ("cel_expr_python", "google.protobuf")
    try:
        return all(importlib.util.find_spec(name) is not None for name in names)
    except ModuleNotFoundError:
        return False


def find_rules(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the place of each list of expression rules in a schema."""
    if schema.get(_RULES):
        yield f"{path}.{_RULES}"
    for name, child in (schema.get("properties") or {}).items():
        yield from find_rules(child, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from find_rules(schema[key], f"{path}.{key}")


def compile_expressions(schema: Mapping[str, Any]) -> Expressions | None:
    """Compile the rules of a version; None where it has none."""
    if next(find_rules(schema), None) is None:
        return None
    return Expressions(StructuralSchema(schema))


class Expressions:
    """The rules of a schema, each at its place."""

    def __init__(self, schema: StructuralSchema) -> None:
        self._root = _Node(schema, is_resource=True)

    def evaluate(self, obj: Object, old: Object | None) -> tuple[list[Cause], list[str]]:
        """Return what is wrong, and the warnings for what was wrong before and did not change."""
        causes: list[Cause] = []
        warnings: list[str] = []
        self._root.evaluate(obj, None if old is None else (old,), "", causes, warnings)
        return causes, warnings


class _Node:
    """The rules at one place, and the places below that have some."""

    __slots__ = ("additional", "is_resource", "items", "properties", "rules", "schema")

    def __init__(self, schema: StructuralSchema, *, is_resource: bool = False) -> None:
        from kubewright.local.apiserver.crd.cel_rule import Rule

        self.schema = schema
        self.is_resource = is_resource
        self.rules: list[Rule] = [Rule(schema, rule) for rule in schema.raw.get(_RULES) or ()]
        self.properties = {
            name: _Node(child)
            for name, child in schema.properties.items()
            if next(find_rules(child.raw), None) is not None
        }
        self.items = _optional_node(schema.items)
        self.additional = _optional_node(schema.additional)

    def evaluate(
        self,
        value: Any,
        old: tuple[Any] | None,
        path: str,
        causes: list[Cause],
        warnings: list[str],
    ) -> None:
        """Check a value and all below it; `old` holds the value before, where there was one."""
        if value is None:
            return
        if self.rules:
            self._check(value, old, path, causes, warnings)
        if type(value) is dict:
            for key, item in value.items():
                self._descend(key, item, value, old, path, causes, warnings)
        elif type(value) is list and self.items is not None:
            for index, item in enumerate(value):
                before = self._find_before(item, old)
                self.items.evaluate(item, before, f"{path}[{index}]", causes, warnings)

    def _descend(
        self,
        key: str,
        item: Any,
        value: dict[str, Any],
        old: tuple[Any] | None,
        path: str,
        causes: list[Cause],
        warnings: list[str],
    ) -> None:
        node, where = self.properties.get(key), f"{path}.{key}" if path else key
        if node is None:
            node, where = self.additional, f"{path}[{key}]"
        if node is not None:
            known = old is not None and type(old[0]) is dict and old[0].get(key) is not None
            before = (old[0][key],) if known and old is not None else None
            node.evaluate(item, before, where, causes, warnings)

    def _find_before(self, item: Any, old: tuple[Any] | None) -> tuple[Any] | None:
        """Return the item of the old list that has the same keys."""
        if self.schema.list_type != "map" or old is None or type(old[0]) is not list:
            return None
        keys = self.schema.list_map_keys
        for before in old[0]:
            if all(before.get(key) == item.get(key) for key in keys):
                return (before,)
        return None

    def _check(
        self,
        value: Any,
        old: tuple[Any] | None,
        path: str,
        causes: list[Cause],
        warnings: list[str],
    ) -> None:
        converted = to_cel(self.schema, value, is_resource=self.is_resource)
        before = None
        if old is not None:
            before = (to_cel(self.schema, old[0], is_resource=self.is_resource),)
        unchanged = old is not None and old[0] == value
        for rule in self.rules:
            if rule.uses_old_self and before is None and not rule.optional_old_self:
                continue
            outcome = rule.evaluate(converted, before)
            if outcome.holds:
                continue
            cause = _cause(rule, outcome, value, path, self.schema.raw.get("type") or "")
            if unchanged and not rule.uses_old_self:
                warnings.append(f"{cause.field}: {cause.message}")
            else:
                causes.append(cause)


def _optional_node(schema: StructuralSchema | None) -> _Node | None:
    if schema is None or next(find_rules(schema.raw), None) is None:
        return None
    return _Node(schema)


def _cause(rule: Rule, outcome: Outcome, value: Any, path: str, declared: str) -> Cause:
    where = f"{path}{rule.field_path}".removeprefix(".") or NO_FIELD
    if outcome.error:
        message = f'Invalid value: "{declared}": {outcome.error}'
        return Cause("FieldValueInvalid", message, where)
    shown = "" if isinstance(value, dict | list) else f"{format_value(value)}: "
    words = {
        "FieldValueDuplicate": "Duplicate value",
        "FieldValueForbidden": f"Forbidden: {outcome.message}",
        "FieldValueRequired": f"Required value: {outcome.message}",
    }
    message = words.get(rule.reason, f"Invalid value: {shown}{outcome.message}")
    return Cause(rule.reason, message, where)
