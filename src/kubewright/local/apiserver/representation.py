"""Answers in the form that was negotiated: JSON as stored, pretty, YAML, Table, metadata only."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubewright.api.errors import BadRequest, NotAcceptable
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Request, Response, encode_json
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.negotiation import YAML, Media
from kubewright.local.apiserver.storage import decode_json
from kubewright.local.apiserver.table import build_partial, build_table

_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def represent(request: Request, media: Media, status: int, raw: bytes) -> Response:
    """Build the answer from a JSON text: as it is, indented, or as YAML."""
    if media.media_type == YAML:
        return Response(status, encode_yaml(decode_json(raw)), YAML)
    if is_pretty(request):
        raw = msgspec.json.format(raw, indent=2)
    return Response(status, raw + b"\n")


def represent_object(
    request: Request, media: Media, status: int, kind: ServedKind, raw: bytes, now: datetime
) -> Response:
    """Build the answer that shows one object.

    Raises:
        NotAcceptable: a list's form was asked for.
    """
    if media.convert:
        obj = decode_json(raw)
        if media.convert == "PartialObjectMetadataList":
            raise NotAcceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"(*{internal_type(kind)})",
                None,
            )
        if media.convert == "Table":
            version = obj["metadata"].get("resourceVersion", "")
            obj = build_table(
                kind,
                [obj],
                {"resourceVersion": version} if version else {},
                include=include_object(request),
                version=media.version,
                now=now,
            )
        else:
            obj = build_partial(obj, media.version)
        raw = encode_json(obj)
    return represent(request, media, status, raw)


def is_pretty(request: Request) -> bool:
    """Tell whether the answer is for human eyes: asked for, or to curl, wget or a browser."""
    if "pretty" in request.query:
        return request.flag("pretty")
    return request.header("user-agent").startswith(_PRETTY_AGENTS)


def include_object(request: Request) -> str:
    """Return what a Table's rows hold: `Metadata`, `Object` or `None`.

    Raises:
        BadRequest: the value of `includeObject` is unknown.
    """
    value = request.param("includeObject") or "Metadata"
    if value not in ("Metadata", "Object", "None"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
            "must be 'Metadata', 'Object', 'None', or empty",
            None,
        )
    return value


def internal_type(kind: ServedKind, suffix: str = "") -> str:
    """Return the Go type that messages of the API server print for a kind."""
    if kind.is_custom:
        return "unstructured.Unstructured" + suffix
    group = kind.resource.group.partition(".")[0] or "core"
    return f"{group}.{kind.resource.kind}{suffix}"


def encode_yaml(obj: Object) -> bytes:
    """Write an object as YAML with sorted keys, as the API server does."""
    import yaml  # loaded by the first client that asks for YAML, not by every start

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(obj, Dumper=dumper, sort_keys=True, allow_unicode=True, width=10**6)
    return text.encode()
