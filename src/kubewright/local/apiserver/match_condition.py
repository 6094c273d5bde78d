"""matchConditions of webhooks: CEL expressions that narrow what they are asked about."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission_expression import ExpressionFailed, evaluate, find_fault
from kubewright.local.apiserver.crd.expressions import is_cel_available
from kubewright.local.apiserver.field_error import forbidden, invalid

_VARIABLES = ("object", "oldObject", "request")


class ConditionFailed(Exception):
    """A condition could not be evaluated; the text names it and says why."""


def validate_condition(text: str, field: str) -> list[Cause]:
    """Return what is wrong with the text of a condition.

    Without an evaluator every condition is refused by name: none is ignored.
    """
    if not is_cel_available():
        return [forbidden(field, "match conditions (CEL) need an evaluator: kubewright[cel]")]
    fault = find_fault(text, _VARIABLES, "bool")
    return [invalid(field, text, fault)] if fault else []


def holds(text: str, data: Object) -> bool:
    """Evaluate a condition on `object`, `oldObject` and `request`.

    Raises:
        ConditionFailed: it does not compile, or fails.
    """
    try:
        return evaluate(text, _VARIABLES, data) is True
    except ExpressionFailed as error:
        raise ConditionFailed(f"expression '{text}' resulted in error: {error}") from None
