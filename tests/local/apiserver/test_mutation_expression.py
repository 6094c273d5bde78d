from __future__ import annotations

import pytest

from kubewright.local.apiserver.mutation_expression import as_maps


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("object.data.x == 'Object{a: 1}'", "object.data.x == 'Object{a: 1}'"),
        ("Object{}", "dyn({})"),
        ("Object{a: 1, b: x}", "dyn({'a': 1, 'b': x})"),
        (
            "Object{metadata: Object.metadata{labels: {'k': v}}}",
            "dyn({'metadata': dyn({'labels': {'k': v}})})",
        ),
        ("Object{a: b ? c : d}", "dyn({'a': b ? c : d})"),
        ("Object{?a: optional.none()}", "dyn({?'a': optional.none()})"),
        ("[JSONPatch{op: 'add', path: '/x'}]", "[dyn({'op': 'add', 'path': '/x'})]"),
        (
            "Object{l: object.l.map(c, Object.l{name: c.name})}",
            "dyn({'l': object.l.map(c, dyn({'name': c.name}))})",
        ),
    ],
)
def test_typed_literals_become_maps(text: str, written: str) -> None:
    assert as_maps(text) == written
