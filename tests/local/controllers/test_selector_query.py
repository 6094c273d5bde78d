from __future__ import annotations

import pytest

from kubewright.local.controllers.selector_query import format_query, parse_selector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("app=web", {"app": "web"}, True),
        ("app==web,v!=2", {"app": "web"}, True),
        ("app=web,v!=2", {"app": "web", "v": "2"}, False),
        ("tier in (a, b)", {"tier": "b"}, True),
        ("tier notin (a,b)", {}, True),
        ("a,!b", {"a": ""}, True),
        ("!b", {"b": "1"}, False),
        ("empty=", {"empty": ""}, True),
        ("empty=,a", {"empty": "", "a": "1"}, True),
        ("n>3", {"n": "4"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("", {}, True),
    ],
)
def test_reads_what_selectors_say(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a in b", "a=b,", "a b", "=a", "a in (b", ",", "a=(b)"])
def test_refuses_what_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse requirement"):
        parse_selector(text)


def test_writes_what_it_reads() -> None:
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "c", "operator": "DoesNotExist"},
            {"key": "d", "operator": "Exists"},
        ],
    }
    text = format_query(selector)
    assert text == "a in (x,y),b=1,!c,d"
    assert parse_selector(text).matches({"a": "x", "b": "1", "d": ""})
    assert format_query(None) == ""
