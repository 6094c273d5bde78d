from __future__ import annotations

from typing import Any

import pytest

from kubewright.local.apiserver.crd import expression_rules
from kubewright.local.apiserver.crd.expression_rules import validate_expressions
from kubewright.local.apiserver.crd.expressions import compile_expressions, is_cel_available

pytestmark = pytest.mark.skipif(not is_cel_available(), reason="kubewright[cel] is not installed")

RULES = "x-kubernetes-validations"


def of_spec(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", RULES: list(rules), "properties": properties}
    return {"type": "object", "properties": {"spec": spec}}


def faults(schema: dict[str, Any], spec: Any, old: Any = None) -> list[tuple[str, str]]:
    expressions = compile_expressions(schema)
    assert expressions is not None
    before = None if old is None else {"spec": old}
    causes, _ = expressions.evaluate({"spec": spec}, before)
    return [(cause.field, cause.message) for cause in causes]


INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def test_tells_message_default_and_computed_one() -> None:
    schema = of_spec(
        {"rule": "self.a < 5", "message": "a too big"},
        {"rule": "self.a != 9"},
        {"rule": "self.a < 7", "messageExpression": "'a is ' + string(self.a)"},
        a=INTEGER,
    )
    assert faults(schema, {"a": 9}) == [
        ("spec", "Invalid value: a too big"),
        ("spec", "Invalid value: failed rule: self.a != 9"),
        ("spec", "Invalid value: a is 9"),
    ]
    assert faults(schema, {"a": 1}) == []


def test_scalars_show_their_value_and_reasons_choose_the_words() -> None:
    positive = {**INTEGER, RULES: [{"rule": "self > 0", "message": "must be positive"}]}
    schema = of_spec(
        {
            "rule": "!has(self.x)",
            "message": "no",
            "reason": "FieldValueForbidden",
            "fieldPath": ".x",
        },
        a=positive,
        x=STRING,
    )
    assert faults(schema, {"a": -2, "x": ""}) == [
        ("spec.x", "Forbidden: no"),
        ("spec.a", "Invalid value: -2: must be positive"),
    ]


def test_transition_rules_need_an_old_value() -> None:
    fixed = {**STRING, RULES: [{"rule": "self == oldSelf", "message": "fixed"}]}
    once = {
        **STRING,
        RULES: [
            {
                "rule": "oldSelf.orValue('') == '' || self == oldSelf.value()",
                "optionalOldSelf": True,
                "message": "once",
            }
        ],
    }
    schema = of_spec({"rule": "true"}, fixed=fixed, once=once)
    assert faults(schema, {"fixed": "x", "once": "y"}) == []
    assert faults(schema, {"fixed": "x", "once": "z"}, {"fixed": "w", "once": "y"}) == [
        ("spec.fixed", 'Invalid value: "x": fixed'),
        ("spec.once", 'Invalid value: "z": once'),
    ]


def test_unchanged_parts_only_warn() -> None:
    schema = of_spec({"rule": "true"}, a={**INTEGER, RULES: [{"rule": "self > 5"}]}, b=INTEGER)
    expressions = compile_expressions(schema)
    assert expressions is not None
    found = expressions.evaluate({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1, "b": 1}})
    assert found == ([], ["spec.a: Invalid value: 1: failed rule: self > 5"])


def test_map_lists_keep_their_items_apart() -> None:
    items = {
        "type": "object",
        "properties": {"k": STRING, "v": {**INTEGER, RULES: [{"rule": "self == oldSelf"}]}},
    }
    listed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": items,
    }
    schema = of_spec({"rule": "true"}, l=listed)
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    assert faults(schema, {"l": [{"k": "b", "v": 2}, {"k": "c", "v": 3}]}, old) == []
    moved = faults(schema, {"l": [{"k": "b", "v": 2}, {"k": "a", "v": 9}]}, old)
    assert [field for field, _ in moved] == ["spec.l[1].v"]


def test_names_that_are_no_identifiers_are_escaped() -> None:
    schema = of_spec(
        {"rule": "self.a__dash__b > 0 && self.__namespace__ == 'n'"},
        **{"a-b": INTEGER, "namespace": STRING},
    )
    assert faults(schema, {"a-b": 1, "namespace": "n"}) == []
    assert len(faults(schema, {"a-b": 0, "namespace": "n"})) == 1


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("quantity(self).isLessThan(quantity('1Gi'))", "512Mi", "2Gi"),
        ("ip(self).family() == 4", "192.0.2.1", "::1"),
        ("cidr(self).containsIP('192.0.2.5')", "192.0.2.0/24", "10.0.0.0/8"),
        ("url(self).getScheme() == 'https'", "https://a.b", "http://a.b"),
        ("semver(self).isGreaterThan(semver('1.2.3'))", "1.10.0", "1.2.3-rc.1"),
        ("!format.dns1123Label().validate(self).hasValue()", "good", "Bad_"),
        ("self.find('[0-9]+') == '12'", "a12b", "a"),
        ("isQuantity(self)", "1", "lots"),
    ],
)
def test_has_the_libraries_of_kubernetes(rule: str, good: str, bad: str) -> None:
    schema = of_spec({"rule": "true"}, s={**STRING, RULES: [{"rule": rule}]})
    assert faults(schema, {"s": good}) == []
    assert len(faults(schema, {"s": bad})) == 1


def test_times_and_spans_have_their_own_types() -> None:
    schema = of_spec(
        {"rule": "self.d > duration('1m') && self.t.getFullYear() < 2030"},
        d={**STRING, "format": "duration"},
        t={**STRING, "format": "date-time"},
    )
    assert faults(schema, {"d": "1h", "t": "2024-01-01T00:00:00Z"}) == []
    assert len(faults(schema, {"d": "30s", "t": "2024-01-01T00:00:00Z"})) == 1


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({"rule": "self.a >"}, "rule", "Syntax error"),
        ({"rule": "self.b > 1"}, "rule", "ERROR: <input>:1:5: undefined field 'b'"),
        ({"rule": "self.a + 1"}, "rule", "cel expression must evaluate to a bool"),
        ({"rule": "nosuch(self)"}, "rule", "undeclared reference to 'nosuch'"),
        ({"rule": ""}, "rule", "Required value: rule is not specified"),
        ({"rule": "true", "message": " "}, "message", "must be non-empty if specified"),
        ({"rule": "true", "fieldPath": "spec"}, "fieldPath", "must be a valid path"),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf", "oldSelf is not used"),
    ],
)
def test_refuses_a_rule_that_cannot_work(rule: dict[str, Any], field: str, message: str) -> None:
    (cause,) = validate_expressions(of_spec(rule, a=INTEGER), "s")
    assert cause.field == f"s.properties[spec].{RULES}[0].{field}"
    assert message in cause.message


def test_old_values_of_plain_list_items_cannot_be_found() -> None:
    items = {**INTEGER, RULES: [{"rule": "self == oldSelf"}]}
    schema = of_spec({"rule": "true"}, l={"type": "array", "items": items})
    (cause,) = validate_expressions(schema, "s")
    assert "oldSelf cannot be used on the uncorrelatable portion" in cause.message


def test_without_an_evaluator_rules_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression_rules, "is_cel_available", lambda: False)
    (cause,) = validate_expressions(of_spec({"rule": "true"}), "s")
    assert cause.field == f"s.properties[spec].{RULES}"
    assert "install kubewright[cel]" in cause.message
