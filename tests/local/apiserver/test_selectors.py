from __future__ import annotations

import pytest

from kubewright.api.errors import BadRequest
from kubewright.local.apiserver.selectors import (
    build_label_selector,
    format_label_selector,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "2", "in": "x", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app=web",
        "app==web,tier!=1",
        "app in (web, db),tier",
        "app notin (db)",
        "!missing",
        "missing!=x",
        "tier>1,tier<3",
        "in=x",
        "empty=",
        "empty in (,x)",
    ],
)
def test_matches(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["app=db", "!app", "missing", "app in (db)", "tier>2", "app>1", "empty=x", "missing>1"]
)
def test_does_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in", "unable to parse requirement: found '' expected: '('"),
        ("app=a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_refusals_are_worded_as_the_real_parser_does(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_label_selector(text)
    assert caught.value.message == message


def test_field_selector_escapes() -> None:
    selector = parse_field_selector(r"a=x\,y,b!=z")
    values = {"a": "x,y", "b": "w"}
    assert selector.matches(lambda field: values[field])
    assert selector.exact("a") == "x,y"
    assert selector.exact("b") is None


def test_field_selector_without_operator_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"can't understand 'metadata\.name'"):
        parse_field_selector("metadata.name")


def test_object_selectors_format_and_match_alike() -> None:
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}],
    }
    text = format_label_selector(selector)
    assert text == "app=x,t in (a,b)"
    for labels in ({"app": "x", "t": "a"}, {"app": "x", "t": "c"}, {"t": "a"}):
        expected = parse_label_selector(text).matches(labels)
        assert build_label_selector(selector).matches(labels) is expected
