from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.api.errors import BadRequest, Invalid, RequestEntityTooLarge
from kubewright.local.apiserver.patch.json_patch import apply_patch

# A busy machine may be slow: no deadline, and few examples for each run.
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DOC: dict[str, Any] = {
    "data": {"k": "v", "n": None},
    "list": ["a", "b", "c"],
    "a/b": {"m~n": 1},
}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/data/x", "value": 1}, {"data": {"k": "v", "n": None, "x": 1}}),
        ({"op": "add", "path": "/list/1", "value": "x"}, {"list": ["a", "x", "b", "c"]}),
        ({"op": "add", "path": "/list/-", "value": "x"}, {"list": ["a", "b", "c", "x"]}),
        ({"op": "add", "path": "/list/-1", "value": "x"}, {"list": ["a", "b", "c", "x"]}),
        ({"op": "add", "path": "/data/k"}, {"data": {"k": None, "n": None}}),
        ({"op": "remove", "path": "/list/-1"}, {"list": ["a", "b"]}),
        ({"op": "remove", "path": "/a~1b/m~0n"}, {"a/b": {}}),
        ({"op": "replace", "path": "/data/new", "value": 1}, {"data": {**DOC["data"], "new": 1}}),
        ({"op": "replace", "path": "/list/0", "value": "x"}, {"list": ["x", "b", "c"]}),
        ({"op": "replace", "path": "", "value": {"z": 1}}, {"z": 1}),
        ({"op": "move", "from": "/list/0", "path": "/data/m"}, {"list": ["b", "c"]}),
        ({"op": "copy", "from": "/data/k", "path": "/data/c"}, {"data": {**DOC["data"], "c": "v"}}),
        ({"op": "copy", "from": "/data/no", "path": "/x"}, {"x": None}),
        ({"op": "test", "path": "/data/n", "value": None}, DOC),
        ({"op": "test", "path": "/data/missing"}, DOC),
        ({"op": "test", "path": "", "value": DOC}, DOC),
    ],
)
def test_applies_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    result = apply_patch(DOC, [operation])
    assert {key: result[key] for key in expected} == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/k", "value": "other"},
        {"op": "test", "path": "/a~1b/m~0n", "value": True},
        {"op": "test", "path": "/a~1b/m~0n", "value": 1.0},
        {"op": "test", "path": "/data/k"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "remove", "path": "/list/3"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/missing/x", "value": 1},
        {"op": "add", "path": "/data/n/x", "value": 1},
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/data/k/x", "value": 1},
        {"op": "replace", "path": "/list/-", "value": 1},
        {"op": "replace", "path": "", "value": "text"},
        {"op": "move", "from": "/data/missing", "path": "/data/x"},
        {"op": "move", "path": "/data/x"},
        {"op": "copy", "from": "/missing/x", "path": "/data/x"},
        {"op": "odd", "path": "/data/k"},
        {"path": "/data/k"},
        {"op": "add"},
        None,
    ],
)
def test_refuses_what_does_not_apply(operation: Any) -> None:
    with pytest.raises(Invalid) as refused:
        apply_patch(DOC, [operation])
    assert refused.value.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize("patch", [{}, None, "x", 1, [1], [{"op": 1}], [{"path": {}}]])
def test_refuses_what_is_no_patch(patch: Any) -> None:
    with pytest.raises(BadRequest, match=r"^error decoding patch: json: cannot unmarshal"):
        apply_patch(DOC, patch)


def test_refuses_too_many_operations() -> None:
    with pytest.raises(RequestEntityTooLarge, match="10000, got 10001"):
        apply_patch(DOC, [{"op": "test", "path": "/data/n"}] * 10_001)


def test_leaves_the_document_alone() -> None:
    doc: dict[str, Any] = {"a": {"b": [1]}}
    apply_patch(doc, [{"op": "add", "path": "/a/b/-", "value": 2}])
    assert doc == {"a": {"b": [1]}}


PATHS = st.sampled_from(["/a", "/a/b", "/l/0", "/l/1", "/l/-", "/a/c", "/x/y", "/l/0/z"])
OPERATIONS = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace"]), "path": PATHS, "value": st.integers(1, 3)}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": PATHS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": PATHS, "path": PATHS}),
)


@FEW
@given(st.lists(OPERATIONS, max_size=5))
def test_agrees_with_the_standard_where_that_succeeds(operations: list[Any]) -> None:
    doc = {"a": {"b": 1}, "l": [{"z": 1}, 2]}
    try:
        expected = jsonpatch.apply_patch(doc, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError):
        return
    if any(op["op"] == "move" and op["path"].startswith(op["from"]) for op in operations):
        return
    assert apply_patch(doc, operations) == expected
