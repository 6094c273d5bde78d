from __future__ import annotations

from typing import Any

import pytest

from kubewright.local.apiserver.crd.json_path import JSONPath, JSONPathError

OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "dotted"}},
    "spec": {"n": 3, "list": [{"x": "p", "n": 1}, {"x": "q", "n": 5}], "map": {"a": 1, "b": 2}},
    "status": {
        "conditions": [
            {"type": "Synced", "status": "False"},
            {"type": "Ready", "status": "True"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.n", [3]),
        (".spec.missing.deeper", []),
        (".spec.list[*].x", ["p", "q"]),
        (".spec.list[0].x", ["p"]),
        (".spec.list[-1].x", ["q"]),
        (".spec.list[7].x", []),
        (".spec.list[0:1].x", ["p"]),
        (".spec.list[0,1].n", [1, 5]),
        (".spec.map.*", [1, 2]),
        (".spec.map['a','b']", [1, 2]),
        (r".metadata.annotations.a\.b/c", ["dotted"]),
        (".metadata.annotations['a.b/c']", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'None')].status", []),
        (".spec.list[?(@.n>2)].x", ["q"]),
        (".spec.list[?(@.n)].x", ["p", "q"]),
        (".spec.list[?(@.x>2)].x", []),
        ("..status", [OBJECT["status"], "False", "True"]),
        ("{.spec.n}", [3]),
    ],
)
def test_finds(path: str, found: list[Any]) -> None:
    assert list(JSONPath(path).find(OBJECT)) == found


@pytest.mark.parametrize("path", [".spec[", ".a[?(@.x==y)]", ".."])
def test_refuses_what_it_cannot_read(path: str) -> None:
    with pytest.raises(JSONPathError):
        JSONPath(path)
