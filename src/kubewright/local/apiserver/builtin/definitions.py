"""The OpenAPI definitions of the built-in kinds, loaded when they are first asked for.

The data comes from `tools/builtin_schemas.py` and `tools/published_enums.py`. The structure is
small and loads in milliseconds; descriptions and enums, which only `kubectl explain` and the
published document need, load on their own: no enum decides what an object may hold.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.schema.node import SchemaNode, compile_schema

REFERENCE_PREFIX = "#/components/schemas/"
_DATA = files("kubewright.local.apiserver.builtin") / "data"


@cache
def structures() -> dict[str, Object]:
    """Return all definitions by name, without descriptions. Read-only: the dicts are shared."""
    text = gzip.decompress((_DATA / "definitions.json.gz").read_bytes())
    return msgspec.json.decode(text, type=dict[str, Object])


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    text = lzma.decompress((_DATA / "descriptions.json.xz").read_bytes())
    return msgspec.json.decode(text, type=dict[str, dict[str, str]])


class PublishedEnum(msgspec.Struct, frozen=True):
    """What an enum adds to a property: the choices, and a text with their meanings.

    `place` says whose choices they are: the property's own where it is empty, or its items'.
    """

    place: str
    enum: list[str]
    text: str


@cache
def _enums() -> dict[str, dict[str, PublishedEnum]]:
    text = gzip.decompress((_DATA / "enums.json.gz").read_bytes())
    return msgspec.json.decode(text, type=dict[str, dict[str, PublishedEnum]])


class Definitions(Mapping[str, Object]):
    """All definitions by name, with descriptions and enums, put together when one is read."""

    def __getitem__(self, name: str) -> Object:
        structure = structures()[name]
        texts = _descriptions().get(name, {})
        result: Object = {"description": texts[""]} if "" in texts else {}
        result |= structure
        if properties := structure.get("properties"):
            enums = _enums().get(name, {})
            result["properties"] = {
                key: _describe(child, texts.get(key, ""), enums.get(key))
                for key, child in properties.items()
            }
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(structures())

    def __len__(self) -> int:
        return len(structures())


def _describe(schema: Object, text: str, enum: PublishedEnum | None) -> Object:
    if enum is not None:
        text += enum.text
        choices = {"enum": enum.enum}
        place = {enum.place: schema[enum.place] | choices} if enum.place else choices
        schema = schema | place
    return {"description": text, **schema} if text else schema


def definitions() -> Mapping[str, Object]:
    """Return the OpenAPI v3 definitions of the built-in kinds by name, with descriptions.

    The names are those of the published document, such as `io.k8s.api.apps.v1.Deployment`.
    References read `#/components/schemas/NAME`.
    """
    return Definitions()


def resolve(reference: str) -> Object:
    """Return the definition that a `$ref` names, without descriptions."""
    return structures()[reference.removeprefix(REFERENCE_PREFIX)]


@cache
def schema_for(definition: str) -> SchemaNode:
    """Return the compiled schema of a definition; definitions that refer to it share it."""
    return compile_schema({"$ref": REFERENCE_PREFIX + definition}, resolve)


@cache
def _names_by_kind() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in structures().items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }


def definition_of(gvk: GroupVersionKind) -> str | None:
    """Return the name of the definition of a kind, or None where there is none."""
    return _names_by_kind().get((gvk.group, gvk.version, gvk.kind))
