"""The envelope of protobuf bodies: four magic bytes, then a runtime.Unknown."""

from __future__ import annotations

from typing import NamedTuple

from kubewright.api.errors import BadRequest
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.builtin.names import META, definition_name
from kubewright.local.apiserver.builtin.shapes import StructShape, struct_of
from kubewright.local.apiserver.protobuf.message import decode_struct
from kubewright.local.apiserver.protobuf.wire import WireError, read_fields

MAGIC = b"k8s\x00"
_SHOWN = 30


class Envelope(NamedTuple):
    """What a body holds: the type as its sender names it, and the message."""

    api_version: str
    kind: str
    raw: bytes


def open_envelope(body: bytes) -> Envelope:
    """Read the envelope of a body.

    Raises:
        WireError: the body does not start with the magic bytes, is empty behind them, or cut off.
    """
    if not body.startswith(MAGIC):
        prefix = " ".join(str(byte) for byte in MAGIC)
        raise WireError(
            f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]"
        )
    if len(body) == len(MAGIC):
        raise WireError("empty body")
    try:
        parts = _delimited(body[len(MAGIC) :])
        type_meta = _delimited(parts.get(1, b""))
        return Envelope(
            type_meta.get(1, b"").decode(), type_meta.get(2, b"").decode(), parts.get(2, b"")
        )
    except UnicodeDecodeError as error:
        raise WireError(str(error)) from error


def _delimited(data: bytes) -> dict[int, bytes]:
    return {number: value for number, _, value in read_fields(data) if isinstance(value, bytes)}


def decode_body(body: bytes, expected: str = "") -> Object:
    """Decode a protobuf body of a built-in kind into the object that JSON would have carried.

    `expected` is the kind that the path is for; only the refusal of junk names it.

    Raises:
        BadRequest: the body is no protobuf message of a built-in kind.
    """
    try:
        envelope = open_envelope(body)
    except WireError as error:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {expected}): {error}"
            f" ({_summary(body)})",
            None,
        ) from error
    gvk = GroupVersionKind.parse(envelope.api_version, envelope.kind)
    shape = _find_shape(gvk)
    if shape is None:
        raise BadRequest(
            f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}"', None
        )
    try:
        obj = decode_struct(shape, envelope.raw)
    except (WireError, UnicodeDecodeError) as error:
        raise BadRequest(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}',
            None,
        ) from error
    return {"apiVersion": envelope.api_version, "kind": envelope.kind, **obj}


def _find_shape(gvk: GroupVersionKind) -> StructShape | None:
    # Options such as DeleteOptions are of the meta group, whatever group a client names.
    for definition in (definition_name(gvk), f"{META}.{gvk.kind}"):
        try:
            return struct_of(definition)
        except KeyError:
            continue
    return None


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN else ""
    shown = body[:_SHOWN]
    text = shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()
    return text + more
