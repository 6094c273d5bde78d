"""Protobuf bodies: the door to `protobuf` for the verbs."""

from __future__ import annotations

from kubewright.api.resource import Object


def decode(body: bytes, expected: str = "") -> Object:
    """Decode a body of one of the built-in kinds; `expected` is the one that the path is for.

    Raises:
        BadRequest: it is not what its envelope says.
    """
    # Most requests are JSON: the first protobuf body loads its decoder.
    from kubewright.local.apiserver.protobuf import decode_body

    return decode_body(body, expected)


def decode_options(body: bytes) -> Object:
    """Decode a body of DeleteOptions.

    Raises:
        BadRequest: it is not what its envelope says.
    """
    return decode(body)
