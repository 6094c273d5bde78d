from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.local.apiserver.schema.json_document import DocumentError, decode_json
from kubewright.local.apiserver.schema.yaml_document import decode_yaml

# A busy machine may be slow: no deadline, and few examples for each run.
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_reports_keys_that_stand_twice() -> None:
    body = b'{"metadata":{"name":"b","name":"c"},"l":[{"k":1,"k":2}],"data":{"k":"v", "k" : "w"}}'
    value, duplicates = decode_json(body)
    assert value == {"metadata": {"name": "c"}, "l": [{"k": 2}], "data": {"k": "w"}}
    assert duplicates == [
        'duplicate field "metadata.name"',
        'duplicate field "l[0].k"',
        'duplicate field "data.k"',
    ]


def test_merges_objects_that_stand_twice_where_asked() -> None:
    body = b'{"data":{"k":"v","m":{"a":1}},"data":{"l":"w","m":{"b":2}},"x":[1],"x":[2]}'
    assert decode_json(body, merge=True)[0] == {
        "data": {"k": "v", "l": "w", "m": {"a": 1, "b": 2}},
        "x": [2],
    }


def test_text_that_looks_like_keys_is_no_duplicate() -> None:
    assert decode_json(b'{"a":"\\"x\\":1,\\"x\\":2"}') == ({"a": '"x":1,"x":2'}, [])


def test_refuses_bad_json() -> None:
    with pytest.raises(DocumentError):
        decode_json(b"{nonsense")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("off", False),
        ("true", True),
        ("'y'", "y"),
        ("~", None),
        ("", None),
        ("12", 12),
        ("0x1f", 31),
        ("0o17", 15),
        ("017", 15),
        ("0b101", 5),
        ("1_000", 1000),
        ("-5", -5),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("12:30:45", "12:30:45"),
        ("2020-01-01", "2020-01-01"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("!!str 5", "5"),
        ('!!int "5"', 5),
        ("-", None),
        ("=", "="),
    ],
)
def test_reads_plain_scalars_as_go_does(text: str, value: Any) -> None:
    if text == "-":
        assert decode_yaml(b"-") == ([None], [])
        return
    decoded, _ = decode_yaml(f"a: {text}\n".encode())
    assert decoded == {"a": value}
    assert type(decoded["a"]) is type(value)


def test_turns_keys_into_text() -> None:
    assert decode_yaml(b"{n: 1, 5: 2, 1.5: 3}")[0] == {"false": 1, "5": 2, "1.5": 3}


def test_reads_the_first_document_only() -> None:
    assert decode_yaml(b"a: 1\n---\nb: [\n") == ({"a": 1}, [])
    assert decode_yaml(b"") == (None, [])


def test_tells_the_line_of_a_repeated_key() -> None:
    value, duplicates = decode_yaml(b"metadata: {name: d}\nimmutable: false\nimmutable: true\n")
    assert value == {"metadata": {"name": "d"}, "immutable": True}
    assert duplicates == ['line 3: key "immutable" already set in map']


def test_merges_inherited_maps() -> None:
    body = b"base: &b {a: 1, b: 2}\nmore: {<<: *b, b: 3}\nlist: {<<: [{a: 9}, *b]}\n"
    assert decode_yaml(body)[0] == {
        "base": {"a": 1, "b": 2},
        "more": {"a": 1, "b": 3},
        "list": {"a": 9, "b": 2},
    }


@pytest.mark.parametrize("body", [b"{not: [yaml", b"a: b: c", b"&a [*a]", b"{? {a: b} : 1}"])
def test_refuses_bad_yaml(body: bytes) -> None:
    with pytest.raises(DocumentError):
        decode_yaml(body)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "y", "5", "a b"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=8,
)


@FEW
@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    import msgspec

    body = msgspec.json.encode(value)
    assert decode_yaml(body) == (value, [])
    assert decode_json(body) == (value, [])
