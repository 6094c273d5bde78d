"""OpenAPI v2, which clients ask for only where they miss a kind in v3.

As JSON it has the definitions of all kinds. In protobuf, which is what kubectl asks for, it has
none: kubectl looks there for a kind that v3 does not have, and neither has v2.
"""

from __future__ import annotations

import json

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin import definitions
from kubewright.local.apiserver.builtin.definitions import REFERENCE_PREFIX
from kubewright.local.apiserver.exchange import Request, Response, encode_json
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.version import GIT_VERSION

_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ACCEPTED = ("proto-openapi.spec.v2@v1.0+protobuf", "proto-openapi.spec.v2.v1.0+protobuf")
_TITLE = "Kubernetes"
# Field numbers of gnostic's openapi.v2.Document and Info.
_SWAGGER, _INFO, _PATHS, _INFO_TITLE, _INFO_VERSION = 1, 2, 8, 1, 2


def answer_v2(request: Request, registry: Registry) -> Response:
    """Answer `/openapi/v2`."""
    if any(name in request.header("accept") for name in _ACCEPTED):
        return Response(200, _build_protobuf(), _PROTOBUF)
    return Response(200, encode_json(build_swagger(registry)))


def build_swagger(registry: Registry) -> Object:
    """Build the document with the definitions of all kinds."""
    schemas: Object = dict(definitions())
    for kind in registry.kinds():
        if kind.is_custom:
            schemas[kind.definition] = kind.openapi
    text = json.dumps(schemas).replace(REFERENCE_PREFIX, "#/definitions/")
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": GIT_VERSION},
        "paths": {},
        "definitions": json.loads(text),
    }


def _build_protobuf() -> bytes:
    info = _field(_INFO_TITLE, _TITLE.encode()) + _field(_INFO_VERSION, GIT_VERSION.encode())
    return _field(_SWAGGER, b"2.0") + _field(_INFO, info) + _field(_PATHS, b"")


def _field(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field; all of ours are shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(value))) + value
