"""How much the expression rules of a schema may cost (KEP-2876), and how an excess is told."""

from __future__ import annotations

from kubewright.api.errors import Cause
from kubewright.local.apiserver.field_error import forbidden

RULE_LIMIT = 10_000_000
"""What one rule may cost for all values that it can meet in one object."""

SCHEMA_LIMIT = 100_000_000
"""What all rules of a version may cost together."""

_TOLD = 4
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


class ExpressionBudget:
    """Adds up what the rules of a version cost."""

    def __init__(self) -> None:
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def spend(self, field: str, cost: int) -> None:
        """Count the cost of the expression at a field."""
        self._total += cost
        if cost >= SCHEMA_LIMIT // 100:
            self._expensive.append((cost, field))

    def causes(self, path: str) -> list[Cause]:
        """Say that the version at a path costs too much, and which rules do; empty if it fits."""
        if self._total <= SCHEMA_LIMIT:
            return []
        worst = sorted(self._expensive, key=lambda spent: -spent[0])[:_TOLD]
        detail = (
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 "
            "schema"
        )
        causes = [forbidden(field, detail) for _, field in worst]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [*causes, forbidden(path, describe_excess(name, self._total, SCHEMA_LIMIT))]


def describe_excess(name: str, cost: int, limit: int) -> str:
    """Say by which factor a cost passes its limit."""
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"
