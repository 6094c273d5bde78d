from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.local.apiserver.json_problem import find_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unexpected end of JSON input"),
        ("{nonsense", "invalid character 'n' looking for beginning of object key string"),
        ('{"a":1} x', "invalid character 'x' after top-level value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("nul", "unexpected end of JSON input"),
        ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
        ("\x9e", "invalid character '\\u009e' looking for beginning of value"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("-x", "invalid character 'x' in numeric literal"),
    ],
)
def test_says_what_go_says(text: str, problem: str) -> None:
    assert find_problem(text) == problem


@given(st.text(alphabet='{}[]",:0123 truefalsn\\-.e'))
def test_finds_a_problem_exactly_where_the_standard_decoder_does(text: str) -> None:
    try:
        json.loads(text)
        valid = True
    except ValueError:
        valid = False
    assert (find_problem(text) == "") is valid
