"""Rules of `x-kubernetes-validations` at the creation of a definition."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.expressions import find_rules, is_cel_available
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

_RULES = "x-kubernetes-validations"
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_PATH_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['((?:[^'\\]|\\.)*)'\]")


def validate_expressions(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what is wrong with the expression rules of a schema.

    Without an evaluator every rule is refused by name: none is ignored.
    """
    places = list(find_rules(schema))
    if places and not is_cel_available():
        detail = "expression rules (CEL) need an evaluator: install kubewright[cel]"
        return [forbidden(f"{path}{where}", detail) for where in places]
    return _walk(StructuralSchema(schema), path, None, is_root=True) if places else []


def _walk(
    schema: StructuralSchema, path: str, uncorrelated: str | None, *, is_root: bool = False
) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(schema.raw.get(_RULES) or ()):
        field = f"{path}.{_RULES}[{index}]"
        faults = _validate_words(schema, rule, field)
        causes += faults or _validate_code(schema, rule, field, uncorrelated, is_root=is_root)
    for name, child in schema.properties.items():
        causes += _walk(child, f"{path}.properties[{name}]", uncorrelated)
    if schema.items is not None:
        below = uncorrelated if schema.list_type == "map" else uncorrelated or path
        causes += _walk(schema.items, f"{path}.items", below)
    if schema.additional is not None:
        causes += _walk(schema.additional, f"{path}.additionalProperties", uncorrelated)
    return causes


def _validate_words(schema: StructuralSchema, rule: Mapping[str, Any], field: str) -> list[Cause]:
    if not (rule.get("rule") or "").strip():
        return [required(f"{field}.rule", "rule is not specified")]
    message, reason, where = rule.get("message"), rule.get("reason"), rule.get("fieldPath")
    causes: list[Cause] = []
    if message and not message.strip():
        causes.append(invalid(f"{field}.message", message, "must be non-empty if specified"))
    elif message and "\n" in message.strip():
        causes.append(invalid(f"{field}.message", message, "must not contain line breaks"))
    elif not message and "\n" in rule["rule"].strip() and not rule.get("messageExpression"):
        detail = "message must be specified if rule contains line breaks"
        causes.append(required(f"{field}.message", detail))
    if reason and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", reason, _REASONS))
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


def _validate_code(
    schema: StructuralSchema,
    source: Mapping[str, Any],
    field: str,
    uncorrelated: str | None,
    *,
    is_root: bool,
) -> list[Cause]:
    from kubewright.local.apiserver.crd.cel_rule import ExpressionFault, Rule

    try:
        rule = Rule(schema, source, is_resource=is_root)
    except ExpressionFault as fault:
        return [_uncompiled(source, field, str(fault))]
    if rule.uses_old_self and uncorrelated is not None:
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelated}"
        )
        return [invalid(f"{field}.rule", source["rule"], detail)]
    if source.get("optionalOldSelf") is not None and not rule.uses_old_self:
        detail = "may not be set if oldSelf is not used in rule"
        return [invalid(f"{field}.optionalOldSelf", source["optionalOldSelf"], detail)]
    return []


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
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {fault}", f"{field}.rule")
