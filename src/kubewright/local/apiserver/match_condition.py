"""matchConditions of webhooks: CEL expressions that narrow what they are asked about."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.admission_expression import ExpressionFailed, evaluate

_VARIABLES = ("object", "oldObject", "request")


class ConditionFailed(Exception):
    """A condition could not be evaluated; the text names it and says why."""


def holds(text: str, data: Object) -> bool:
    """Evaluate a condition on `object`, `oldObject` and `request`.

    Raises:
        ConditionFailed: it does not compile, or fails.
    """
    try:
        return evaluate(text, _VARIABLES, data) is True
    except ExpressionFailed as error:
        raise ConditionFailed(f"expression '{text}' resulted in error: {error}") from None
