"""Label selectors, as NetworkPolicies use them (API conventions, "LabelSelector"). Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label."""

    key: str
    operator: str
    values: list[str] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet it; NotIn also holds where the label is missing."""
        has, values = self.key in labels, self.values or ()
        match self.operator:
            case "In":
                return has and labels[self.key] in values
            case "NotIn":
                return not has or labels[self.key] not in values
            case "Exists":
                return has
            case "DoesNotExist":
                return not has
        return False


class LabelSelector(msgspec.Struct, rename="camel", frozen=True):
    """Selects what meets all conditions; an empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet all conditions."""
        wanted = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in wanted) and all(
            requirement.matches(labels) for requirement in self.match_expressions or ()
        )
