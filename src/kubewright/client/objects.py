"""Objects as they came: the JSON text with its metadata decoded, alone and in lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kubewright.api.errors import TransportError
from kubewright.api.metadata import ObjectMeta, decode_metadata
from kubewright.api.resource import Object, Resource

T = TypeVar("T")

_decode_json = msgspec.json.Decoder().decode


class RawObject(NamedTuple):
    """An object's JSON text and metadata.

    `error` says why the metadata could not be decoded; `meta` then holds only what could be saved
    of name, namespace, uid and resource version.
    """

    meta: ObjectMeta
    raw: bytes
    error: str | None = None


class Page(NamedTuple):
    """Some objects of a list, and the resource version of the whole list."""

    items: list[RawObject]
    resource_version: str


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """All objects that a list answered: the `items`, and the version that they were read at."""

    items: list[T]
    resource_version: str

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class _ListMeta(
    msgspec.Struct, rename={"resource_version": "resourceVersion", "token": "continue"}
):
    resource_version: str = ""
    token: str | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode


def decode_raw_object(raw: bytes) -> RawObject:
    """Decode an object's metadata once; never fail on an object that is JSON."""
    try:
        return RawObject(decode_metadata(raw), raw)
    except msgspec.ValidationError as error:
        return RawObject(_salvage_metadata(raw), raw, str(error))


def _salvage_metadata(raw: bytes) -> ObjectMeta:
    """Read the identity of an object whose metadata has fields of wrong types."""
    decoded: Any = _decode_json(raw)
    metadata = decoded.get("metadata") if isinstance(decoded, dict) else None
    found = metadata if isinstance(metadata, dict) else {}

    def text(name: str) -> str:
        value = found.get(name)
        return value if isinstance(value, str) else ""

    return ObjectMeta(
        name=text("name"),
        namespace=text("namespace"),
        uid=text("uid"),
        resource_version=text("resourceVersion"),
    )


def decode_page(body: bytes) -> tuple[Page, str]:
    """Decode the answer of a list, and the token that continues it (empty at the end).

    Items are copied out of the body, so that one object kept does not keep them all.

    Raises:
        TransportError: the body is not a list.
    """
    try:
        decoded = _decode_list(body)
        items = [decode_raw_object(bytes(item)) for item in decoded.items or ()]
    except msgspec.DecodeError as error:
        raise TransportError(f"the server's answer is not a list: {error}") from error
    return Page(items, decoded.metadata.resource_version), decoded.metadata.token or ""


def decode_object(raw: bytes, resource: Resource | None = None) -> Object:
    """Decode an object; with a resource, give back the type that items of lists lack.

    Raises:
        TransportError: the text is not a JSON object.
    """
    try:
        decoded = _decode_json(raw)
    except msgspec.DecodeError as error:
        raise TransportError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise TransportError(f"the server's answer is not an object: {raw[:200]!r}")
    if resource is None or ("kind" in decoded and "apiVersion" in decoded):
        return decoded
    typed: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    typed.update(decoded)
    return typed
