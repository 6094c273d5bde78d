from __future__ import annotations

import pytest

from kubewright.local.apiserver.crd.cel_checker import TypeFault
from kubewright.local.apiserver.crd.expression_budget import (
    SCHEMA_LIMIT,
    ExpressionBudget,
    describe_excess,
)
from kubewright.local.apiserver.crd.expression_check import RuleScope, locate_fault
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema

pytest.importorskip("cel_expr_python")

SCHEMA = StructuralSchema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 100},
            "count": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "maxItems": 10, "items": {"type": "string"}},
            "owners": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "namespace": {"type": "string"},
            "port": {"x-kubernetes-int-or-string": True},
        },
    }
)


def fault_of(rule: str, **more: object) -> str:
    return RuleScope(SCHEMA, is_resource=False).check({"rule": rule, **more}).fault


def cost_of(rule: str) -> int:
    check = RuleScope(SCHEMA, is_resource=False).check({"rule": rule})
    assert check.fault == ""
    return check.cost


@pytest.mark.parametrize(
    "rule",
    [
        "self.count > 1 && self.name.startsWith('a')",
        "self.owners.all(o, o.name != '')",
        "self.owners.map(o, o.name).exists(n, n == self.name)",
        "has(self.name) ? self.name == 'x' : true",
        "self.?name.orValue('') == ''",
        "self.count < 1.5",
        "self.at > timestamp('2020-01-01T00:00:00Z')",
        "type(self.port) == int || quantity(string(self.count)).isInteger()",
        "self.namespace == 'a' && self.__namespace__ == 'a'",
        "sets.contains(self.tags, ['a']) && '%d %s'.format([1, 'a']) == '1 a'",
        "self.tags.sort() == self.tags",
        "{'a': 1}.transformMap(k, v, v + 1).size() == 1",
    ],
)
def test_what_fits_the_schema_is_taken(rule: str) -> None:
    assert fault_of(rule) == ""


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("self.count == 'x'", "'_==_' applied to '(int, string)'"),
        ("self.nope == 1", "undefined field 'nope'"),
        ("self.owners.exists(o, o.nope == 1)", "undefined field 'nope'"),
        ("self.count.nope == 1", "type 'int' does not support field selection"),
        ("self.count.all(x, true)", "expression of type 'int' cannot be range"),
        ("self.name.replace('a', 1) == ''", "'replace' applied to 'string.(string, int)'"),
        ("quantity('1') == 1", "applied to '(kubernetes.Quantity, int)'"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("cel.bind(z, 1, z == 1)", "undeclared reference to 'cel' (in container '')"),
        ("self.count ==", "Syntax error"),
        ("self.port", "cel expression must evaluate to a bool"),
        ("oldSelf.name == 'x'", ""),
    ],
)
def test_what_does_not_fit_is_told_in_the_compilers_words(rule: str, words: str) -> None:
    assert words in fault_of(rule)


def test_an_old_value_that_may_be_absent_is_optional() -> None:
    rule = "oldSelf.name == 'x'"
    assert "optional_type(string)" in fault_of(rule, optionalOldSelf=True)
    assert fault_of("oldSelf.hasValue()", optionalOldSelf=True) == ""


def test_a_message_must_be_a_text() -> None:
    scope = RuleScope(SCHEMA, is_resource=False)
    check = scope.check({"rule": "true", "messageExpression": "self.count"})
    assert (check.fault, check.message_fault) == ("", "messageExpression must evaluate to a string")


def test_loops_cost_as_often_as_a_list_may_have_items() -> None:
    once = cost_of("self.count > 1")
    bounded = cost_of("self.tags.all(x, self.count > 1)")
    unbounded = cost_of("self.owners.all(x, self.count > 1)")
    assert once < 10
    assert 10 * once <= bounded < 100
    assert unbounded > 1_000_000


def test_texts_cost_by_the_length_that_the_schema_allows() -> None:
    bounded = cost_of("self.name.contains(self.name)")
    unbounded = cost_of("self.namespace.contains(self.namespace)")
    assert bounded == 40 * 40 + 4
    assert unbounded > 10**10


def test_asking_whether_a_field_is_there_costs_nothing_more() -> None:
    assert cost_of("has(self.name)") == 1


def test_a_version_whose_rules_cost_too_much_names_the_worst() -> None:
    budget = ExpressionBudget()
    for number in range(6):
        budget.spend(f"rule{number}", SCHEMA_LIMIT // 5 + number)
    causes = budget.causes("schema")
    assert [cause.field for cause in causes] == ["rule5", "rule4", "rule3", "rule2", "schema"]
    assert "1.200000x" in causes[-1].message


def test_cheap_rules_fit() -> None:
    budget = ExpressionBudget()
    budget.spend("rule", SCHEMA_LIMIT)
    assert budget.causes("schema") == []


@pytest.mark.parametrize(
    ("cost", "shown"), [(11, "1.100000x"), (25, "2.5x"), (1001, "more than 100x")]
)
def test_an_excess_is_told_by_its_factor(cost: int, shown: str) -> None:
    assert f"budget by factor of {shown} (" in describe_excess("cost", cost, 10)


def test_a_fault_is_marked_below_its_line() -> None:
    text = "self.a == 'é' &&\n  self.nope"
    assert locate_fault(text, TypeFault(text.index(".nope"), "wrong")) == (
        "ERROR: <input>:2:7: wrong\n |   self.nope\n | ......^"
    )
    assert locate_fault(text, TypeFault(14, "wrong")).endswith("...........．..^")
