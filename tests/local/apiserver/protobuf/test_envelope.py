"""The envelope around protobuf bodies."""

from __future__ import annotations

import pytest

from kubewright.api.errors import BadRequest
from kubewright.local.apiserver.protobuf import decode_body


def delimited(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    return b"k8s\x00" + delimited(1, type_meta) + delimited(2, raw)


def test_takes_the_type_from_the_envelope() -> None:
    metadata = delimited(1, delimited(1, b"cm"))
    entry = delimited(2, delimited(1, b"k") + delimited(2, b"v"))
    assert decode_body(body("v1", "ConfigMap", metadata + entry)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm"},
        "data": {"k": "v"},
    }


def test_reads_delete_options_of_any_group() -> None:
    options = decode_body(body("apps/v1", "DeleteOptions", delimited(4, b"Foreground")))
    assert options == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
    }


def test_reads_definitions_of_custom_resources() -> None:
    names = delimited(1, b"widgets") + delimited(4, b"Widget")
    schema = delimited(5, b"object")
    version = delimited(1, b"v1") + b"\x10\x01\x18\x01" + delimited(4, delimited(1, schema))
    spec = delimited(1, b"example.com") + delimited(3, names) + delimited(7, version)
    raw = delimited(2, spec)
    crd = decode_body(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))
    assert crd["spec"]["names"] == {"plural": "widgets", "kind": "Widget"}
    assert crd["spec"]["versions"][0]["schema"] == {"openAPIV3Schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b'{"a":1}', 'expected prefix [107 56 115 0] ({"a":1})'),
        (b"k8s\x00", "empty body (6b387300)"),
        (b"k8s\x00\xff", "unexpected EOF (6b387300ff)"),
        (b"", "expected prefix [107 56 115 0] (<empty>)"),
    ],
)
def test_refuses_junk(data: bytes, fault: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_body(data, "ConfigMap")
    assert str(caught.value).startswith(
        "the object provided is unrecognized (must be of type ConfigMap): "
    )
    assert str(caught.value).endswith(fault)


def test_refuses_kinds_that_are_not_built_in() -> None:
    with pytest.raises(BadRequest, match="no kind"):
        decode_body(body("example.com/v1", "Widget", b""))
