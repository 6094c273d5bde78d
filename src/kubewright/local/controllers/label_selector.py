"""Label selectors: which objects a workload claims (API conventions, "LabelSelector")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubewright.api.resource import Object

_NO_LABELS: Mapping[str, str] = {}


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label, or on a field of a node.

    Operators are those of label and node selectors: In, NotIn, Exists, DoesNotExist, Gt, Lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, expression: Mapping[str, Any]) -> Requirement:
        """Read one of `matchExpressions` or `matchFields`."""
        values = tuple(expression.get("values") or ())
        return cls(expression["key"], expression["operator"], values)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet the requirement; NotIn also holds where the label is missing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        try:
            have, limit = int(value), int(self.values[0])
        except ValueError:
            return False
        return have > limit if self.operator == "Gt" else have < limit


class LabelSelector(msgspec.Struct, frozen=True):
    """A decoded `metav1.LabelSelector`; an absent one selects nothing, an empty one everything."""

    requirements: tuple[Requirement, ...]
    selects_nothing: bool = False

    @classmethod
    def of(cls, selector: Object | None) -> LabelSelector:
        """Read a selector with `matchLabels` and `matchExpressions`."""
        if selector is None:
            return cls((), selects_nothing=True)
        equal = [Requirement(k, "In", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
        sets = [Requirement.of(e) for e in selector.get("matchExpressions") or ()]
        return cls((*equal, *sets))

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Build the selector of all objects that have these labels."""
        return cls(tuple(Requirement(key, "In", (value,)) for key, value in labels.items()))

    @property
    def is_empty(self) -> bool:
        """Tell whether the selector sets no condition."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Tell whether an object with these labels is selected."""
        if self.selects_nothing:
            return False
        return match_all(self.requirements, labels or _NO_LABELS)


def match_all(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet every requirement."""
    return all(requirement.matches(labels) for requirement in requirements)
