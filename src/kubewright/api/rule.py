"""Rules in CEL: what a schema cannot say of a value, checked by the API server at admission."""

from __future__ import annotations

from typing import Any

import msgspec

VALIDATIONS = "x-kubernetes-validations"


class Rule(msgspec.Struct, frozen=True):
    """A rule that a value must keep, in CEL; where it does not, the API server refuses the object.

    `rule` is an expression of `self` and, for rules about changes, `oldSelf`. `message` is the
    sentence for the user: say the field and what is allowed; `message_expression` computes one.
    `field_path` leads to the field that is at fault, from `self` on, such as `.spec.replicas`.

    The API server reckons beforehand what a rule may cost: give texts a `max_length` and lists a
    `max_length` too, or it refuses the definition.

    Source: KEP-2876, and the Kubernetes documentation, "Validation rules".
    """

    rule: str
    message: str = ""
    message_expression: str = ""
    field_path: str = ""

    def to_object(self) -> dict[str, str]:
        """Return the rule as a schema writes it: empty parts are left out."""
        parts = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "fieldPath": self.field_path,
        }
        return {key: value for key, value in parts.items() if value}


def build_rules(*rules: Rule) -> dict[str, Any]:
    """Return what a pydantic field or model needs for its values to keep some rules.

        zone: str = Field(max_length=20, json_schema_extra=build_rules(RULE)))

    The model itself does not check them: they hold for what the API server stores.
    """
    return {VALIDATIONS: [rule.to_object() for rule in rules]}
