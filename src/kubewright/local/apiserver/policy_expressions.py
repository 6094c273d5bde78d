"""The expressions of admission policies: compiled once, evaluated on a write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver import admission_expression
from kubewright.local.apiserver.admission_expression import (
    ExpressionFailed,
    find_fault,
)
from kubewright.local.apiserver.crd.expressions import is_cel_available
from kubewright.local.apiserver.field_error import forbidden, invalid

__all__ = ["ExpressionFailed", "evaluate", "evaluate_variables", "validate_expressions"]

_VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_STRING = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_AUTHORIZER = re.compile(r"(?<![\w.])authorizer\b")


def evaluate(text: str, data: Object) -> Any:
    """Return the value of an expression of a policy.

    Raises:
        ExpressionFailed: it has none.
    """
    return admission_expression.evaluate(text, _VARIABLES, data)


def evaluate_variables(policy: Object, data: Object) -> Object:
    """Return the data with the policy's variables, each of which may use those before it.

    A variable that fails is left out: only an expression that uses it fails.
    """
    values: Object = {}
    data = {**data, "variables": values}
    for variable in policy.get("variables") or ():
        try:
            values[variable["name"]] = evaluate(variable["expression"], data)
        except ExpressionFailed:
            continue
    return data


def validate_expressions(policy: Object) -> list[Cause]:
    """Return what is wrong with the expressions of a policy.

    Without an evaluator every policy is refused by name, as is the use of `authorizer`, which this
    server does not offer: none is ignored.
    """
    if not is_cel_available():
        detail = "admission policies (CEL) need an evaluator: install kubewright[cel]"
        return [forbidden("spec.validations", detail)]
    causes: list[Cause] = []
    for field, text in _expressions(policy.get("spec") or {}):
        if _AUTHORIZER.search(_STRING.sub('""', text)):
            causes.append(forbidden(field, "this server does not support the variable authorizer"))
            continue
        if fault := find_fault(text, _VARIABLES):
            causes.append(invalid(field, text, fault))
    return causes


def _expressions(spec: Object) -> Iterator[tuple[str, str]]:
    places = (
        ("matchConditions", "expression"),
        ("variables", "expression"),
        ("validations", "expression"),
        ("validations", "messageExpression"),
        ("auditAnnotations", "valueExpression"),
    )
    for key, part in places:
        for index, entry in enumerate(spec.get(key) or ()):
            if text := entry.get(part):
                yield f"spec.{key}[{index}].{part}", text
