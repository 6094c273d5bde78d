"""Rules of `x-kubernetes-validations` at the creation of a definition."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.cel_rule import uses_old_self
from kubewright.local.apiserver.crd.cel_types import LARGEST_REQUEST
from kubewright.local.apiserver.crd.expression_budget import (
    RULE_LIMIT,
    ExpressionBudget,
    describe_excess,
)
from kubewright.local.apiserver.crd.expressions import find_rules, is_cel_available
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from kubewright.local.apiserver.crd.expression_check import ExpressionCheck

_RULES = "x-kubernetes-validations"
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_LINE_BREAK = re.compile(r"[\n\r]")
_PATH_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['((?:[^'\\]|\\.)*)'\]")


def validate_expressions(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the expression rules of a schema.

    Without an evaluator every rule is refused by name: none is ignored. Rules are compiled where
    no rule at their place or below has a fault that needs no compiler to be seen.
    """
    places = list(find_rules(schema))
    if places and not is_cel_available():
        detail = "expression rules (CEL) need an evaluator: install kubewright[cel]"
        return [forbidden(f"{path}{where}", detail) for where in places]
    if not places:
        return []
    rules = _Rules()
    rules.visit(StructuralSchema(schema), _Place(path), is_root=True)
    return rules.word_faults + rules.code_faults + rules.budget.causes(path)


class _Place(msgspec.Struct, frozen=True):
    """Where in a schema rules stand.

    `uncorrelated` is the path of the list above whose items cannot be told apart. `cardinality`
    is how many such values an object can hold; None where nothing limits them.
    """

    path: str
    uncorrelated: str | None = None
    cardinality: int | None = 1

    def property(self, name: str) -> _Place:
        return structs.replace(self, path=f"{self.path}.properties[{name}]")

    def items(self, schema: StructuralSchema) -> _Place:
        below = self.uncorrelated or (None if schema.list_type == "map" else self.path)
        held = self._times(schema.raw.get("maxItems"))
        return _Place(f"{self.path}.items", below, held)

    def additional(self, schema: StructuralSchema) -> _Place:
        held = self._times(schema.raw.get("maxProperties"))
        return _Place(f"{self.path}.additionalProperties", self.uncorrelated, held)

    def _times(self, limit: int | None) -> int | None:
        if self.cardinality is None or limit is None:
            return None
        return self.cardinality * max(0, limit)


class _Rules:
    """Collects the faults and the costs of all rules of a version."""

    def __init__(self) -> None:
        self.word_faults: list[Cause] = []
        self.code_faults: list[Cause] = []
        self.budget = ExpressionBudget()

    def visit(self, schema: StructuralSchema, place: _Place, *, is_root: bool = False) -> None:
        known = len(self.word_faults)
        for name, child in schema.properties.items():
            self.visit(child, place.property(name))
        if schema.items is not None:
            self.visit(schema.items, place.items(schema))
        if schema.additional is not None:
            self.visit(schema.additional, place.additional(schema))
        rules = schema.raw.get(_RULES) or ()
        for index, rule in enumerate(rules):
            field = f"{place.path}.{_RULES}[{index}]"
            self.word_faults += _validate_words(schema, rule, field)
        if rules and len(self.word_faults) == known:
            self._compile(schema, rules, place, is_root=is_root)

    def _compile(
        self,
        schema: StructuralSchema,
        rules: Sequence[Mapping[str, Any]],
        place: _Place,
        *,
        is_root: bool,
    ) -> None:
        from kubewright.local.apiserver.crd.expression_check import RuleScope

        scope = RuleScope(schema, is_resource=is_root or schema.is_embedded_resource)
        times = place.cardinality
        if times is None:
            # As many as fit into a request, with a comma between them.
            times = LARGEST_REQUEST // (scope.min_size + 1)
        for index, rule in enumerate(rules):
            field = f"{place.path}.{_RULES}[{index}]"
            self._judge(rule, field, place, scope.check(rule), times)

    def _judge(
        self,
        rule: Mapping[str, Any],
        field: str,
        place: _Place,
        check: ExpressionCheck,
        times: int,
    ) -> None:
        faults = self.code_faults
        cost = check.cost * times
        if cost > RULE_LIMIT:
            detail = describe_excess("estimated rule cost", cost, RULE_LIMIT)
            faults.append(forbidden(f"{field}.rule", detail))
        self.budget.spend(f"{field}.rule", cost)
        if check.fault:
            faults.append(_uncompiled(rule, f"{field}.rule", check.fault))
        if check.message_fault:
            faults.append(_uncompiled(rule, f"{field}.messageExpression", check.message_fault))
        if check.message_cost > RULE_LIMIT:
            name = "estimated messageExpression cost"
            detail = describe_excess(name, check.message_cost, RULE_LIMIT)
            faults.append(forbidden(f"{field}.messageExpression", detail))
        self.budget.spend(f"{field}.messageExpression", check.message_cost)
        if not check.fault:
            faults += _validate_old_self(rule, field, place.uncorrelated)
        elif rule.get("optionalOldSelf") is not None:
            faults.append(_old_self_unused(rule, field))


def _validate_old_self(
    rule: Mapping[str, Any], field: str, uncorrelated: str | None
) -> list[Cause]:
    if uses_old_self(rule["rule"]):
        if uncorrelated is None:
            return []
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelated}"
        )
        return [invalid(f"{field}.rule", rule["rule"], detail)]
    return [_old_self_unused(rule, field)] if rule.get("optionalOldSelf") is not None else []


def _old_self_unused(rule: Mapping[str, Any], field: str) -> Cause:
    detail = "may not be set if oldSelf is not used in rule"
    return invalid(f"{field}.optionalOldSelf", rule["optionalOldSelf"], detail)


def _validate_words(schema: StructuralSchema, rule: Mapping[str, Any], field: str) -> list[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    causes: list[Cause] = []
    if not text.strip():
        causes.append(required(f"{field}.rule", "rule is not specified"))
    elif message and not message.strip():
        causes.append(invalid(f"{field}.message", message, "must be non-empty if specified"))
    elif _LINE_BREAK.search(message.strip()):
        causes.append(invalid(f"{field}.message", message, "must not contain line breaks"))
    elif _LINE_BREAK.search(text.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        causes.append(required(f"{field}.message", detail))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        causes.append(required(f"{field}.messageExpression", detail))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", reason, _REASONS))
    return causes + _validate_field_path(schema, rule.get("fieldPath") or "", field)


def _validate_field_path(schema: StructuralSchema, where: str, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if where and not where.strip():
        causes.append(invalid(f"{field}.fieldPath", where, "must be non-empty if specified"))
    if _LINE_BREAK.search(where):
        causes.append(invalid(f"{field}.fieldPath", where, "must not contain line breaks"))
    if where and not _is_field(schema, where):
        causes.append(invalid(f"{field}.fieldPath", where, "must be a valid path"))
    return causes


def _is_field(schema: StructuralSchema, path: str) -> bool:
    at = 0
    node: StructuralSchema | None = schema
    while at < len(path):
        match = _PATH_STEP.match(path, at)
        if match is None or node is None:
            return False
        node = node.child(match.group(1) or match.group(2))
        at = match.end()
    return node is not None


def _uncompiled(source: Mapping[str, Any], field: str, fault: str) -> Cause:
    shown = {
        "Rule": source["rule"],
        "Message": source.get("message") or "",
        "MessageExpression": source.get("messageExpression") or "",
        "Reason": source.get("reason"),
        "FieldPath": source.get("fieldPath") or "",
        "OptionalOldSelf": source.get("optionalOldSelf"),
    }
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        # Go's encoder writes them so.
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {fault}", field)
