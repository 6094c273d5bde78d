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
from kubewright.local.apiserver.mutation_expression import as_maps

__all__ = [
    "ExpressionFailed",
    "evaluate",
    "evaluate_named",
    "evaluate_variables",
    "meets_conditions",
    "validate_expressions",
]

_VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_STRING = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_AUTHORIZER = re.compile(r"(?<![\w.])authorizer\b")


def evaluate(text: str, data: Object) -> Any:
    """Return the value of an expression of a policy.

    Raises:
        ExpressionFailed: it has none.
    """
    return admission_expression.evaluate(as_maps(text), _VARIABLES, data)


def evaluate_named(text: str, data: Object) -> Any:
    """Return the value of an expression, which a failure names.

    Raises:
        ExpressionFailed: it has none.
    """
    try:
        return evaluate(text, data)
    except ExpressionFailed as error:
        raise ExpressionFailed(f"expression '{text}' resulted in error: {error}") from error


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


def meets_conditions(policy: Object, data: Object) -> bool:
    """Tell whether all match conditions of a policy hold.

    Raises:
        ExpressionFailed: one of them has no value.
    """
    conditions = policy.get("matchConditions") or ()
    return all(evaluate_named(condition["expression"], data) is True for condition in conditions)


def validate_expressions(policy: Object) -> list[Cause]:
    """Return what is wrong with the expressions of a policy.

    Without an evaluator every policy is refused by name, as is the use of `authorizer`, which this
    server does not offer: none is ignored.
    """
    if not is_cel_available():
        detail = "admission policies (CEL) need an evaluator: install kubewright[cel]"
        return [forbidden("spec", detail)]
    return [
        cause
        for field, text, wanted in _expressions(policy.get("spec") or {})
        for cause in _validate_expression(field, text, wanted)
    ]


def _validate_expression(field: str, text: str, wanted: str) -> list[Cause]:
    if _AUTHORIZER.search(_STRING.sub('""', text)):
        return [forbidden(field, "this server does not support the variable authorizer")]
    fault = find_fault(as_maps(text), _VARIABLES, wanted)
    return [invalid(field, text, fault)] if fault else []


def _expressions(spec: Object) -> Iterator[tuple[str, str, str]]:
    """Yield the expressions of a policy: where each stands, and the type that it must have."""
    places = (
        ("matchConditions", "expression", "bool"),
        ("variables", "expression", ""),
        ("validations", "expression", "bool"),
        ("validations", "messageExpression", "string"),
        ("auditAnnotations", "valueExpression", ""),
    )
    for key, part, wanted in places:
        for index, entry in enumerate(spec.get(key) or ()):
            if text := entry.get(part):
                yield f"spec.{key}[{index}].{part}", text, wanted
    for index, mutation in enumerate(spec.get("mutations") or ()):
        for key, wanted in (("applyConfiguration", "Object"), ("jsonPatch", "list(JSONPatch)")):
            if text := (mutation.get(key) or {}).get("expression"):
                yield f"spec.mutations[{index}].{key}.expression", text, wanted
