"""Checking an expression rule before it is stored: its types, its cost, what it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.local.apiserver.crd.cel_checker import (
    BOOL,
    STRING,
    CheckedTree,
    TypeFault,
    check_tree,
)
from kubewright.local.apiserver.crd.cel_cost import estimate_cost
from kubewright.local.apiserver.crd.cel_rule import ExpressionFault, Rule, read_expression
from kubewright.local.apiserver.crd.cel_types import CelType, DeclaredType, declare
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema


class ExpressionCheck(msgspec.Struct, frozen=True):
    """What came of a rule: faults are empty where there are none, costs 0 where it has faults."""

    fault: str = ""
    message_fault: str = ""
    cost: int = 0
    message_cost: int = 0


class RuleScope:
    """What the rules at one schema node can see; `is_resource` tells that it is a whole object."""

    def __init__(self, schema: StructuralSchema, *, is_resource: bool) -> None:
        self._schema = schema
        self._declared = declare(schema, is_resource=is_resource) or DeclaredType("dyn", 1)

    @property
    def min_size(self) -> int:
        """The fewest bytes that a value of this schema takes as JSON."""
        return self._declared.min_size

    def check(self, source: Mapping[str, Any]) -> ExpressionCheck:
        """Check a rule and its messageExpression."""
        optional = bool(source.get("optionalOldSelf"))
        try:
            rule = self._check(source["rule"], optional=optional)
            # What the evaluator cannot run is refused too, although Kubernetes takes it.
            Rule(self._schema, {**source, "messageExpression": ""})
        except ExpressionFault as fault:
            return ExpressionCheck(f"compilation failed: {fault}")
        if rule.type != BOOL:
            return ExpressionCheck("cel expression must evaluate to a bool")
        cost = estimate_cost(rule, self._declared)
        text = source.get("messageExpression")
        if not text:
            return ExpressionCheck(cost=cost)
        try:
            message = self._check(text, optional=optional)
            Rule(self._schema, source)
        except ExpressionFault as fault:
            return ExpressionCheck("", f"messageExpression compilation failed: {fault}", cost)
        if message.type != STRING:
            return ExpressionCheck("", "messageExpression must evaluate to a string", cost)
        message_cost = estimate_cost(message, self._declared)
        return ExpressionCheck(cost=cost, message_cost=message_cost)

    def _check(self, text: str, *, optional: bool) -> CheckedTree:
        own = self._declared.type
        old = CelType("optional_type", (own,)) if optional else own
        tree = read_expression(text)
        checked = check_tree(tree, {"self": own, "oldSelf": old})
        if checked.faults:
            raise ExpressionFault("\n".join(locate_fault(text, each) for each in checked.faults))
        return checked


def locate_fault(text: str, fault: TypeFault) -> str:
    """Word a fault as the compiler words its own, with the line and a mark below."""
    before = text[: fault.offset]
    start = before.rfind("\n") + 1
    # Characters of several bytes have wide marks.
    marks = "".join("." if char.isascii() else "．" for char in before[start:])
    end = "^" if text[fault.offset : fault.offset + 1].isascii() else "＾"
    row = before.count("\n")
    return (
        f"ERROR: <input>:{row + 1}:{len(marks) + 1}: {fault.message}\n"
        f" | {text.splitlines()[row]}\n | {marks}{end}"
    )
