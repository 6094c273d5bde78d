"""Which form of an answer a client accepts, and what the body of a request is."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from kubewright.api.errors import NotAcceptable, UnsupportedMediaType

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_SERVED = (JSON, YAML, PROTOBUF)
_READ = ", ".join(_SERVED)
_STREAMS = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Media(msgspec.Struct, frozen=True):
    """A negotiated answer: the media type, and what the object is turned into.

    `convert` is empty, `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`; `version`
    is then that of meta.k8s.io.
    """

    media_type: str = JSON
    convert: str = ""
    version: str = ""


_PLAIN = Media()


def parse_accept(header: str) -> list[tuple[str, dict[str, str]]]:
    """Split an Accept header into media types with parameters, the most wanted first."""
    clauses: list[tuple[float, str, dict[str, str]]] = []
    for clause in header.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        if not media_type:
            continue
        params = dict(part.partition("=")[::2] for part in rest if part)
        clauses.append((_quality(params.pop("q", "1")), media_type, params))
    clauses.sort(key=lambda clause: -clause[0])
    return [(media_type, params) for _, media_type, params in clauses]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def negotiate(header: str, *, streams: bool = False, convertible: bool = True) -> Media:
    """Choose the form of an answer from an Accept header.

    `streams` tells that the path may also be watched, `convertible` that objects may be turned into
    Tables and PartialObjectMetadata. Built-in objects in protobuf are not written: a client that
    accepts nothing else gets 406.

    Raises:
        NotAcceptable: nothing that the client accepts can be written.
    """
    if not header or header in (JSON, "*/*"):
        return _PLAIN
    media = _negotiate(header, convertible)
    if media is not None:
        return media
    if _is_routable(header):
        raise NotAcceptable(f"only the following media types are accepted: {_READ}", None)
    listed = f"{_READ}, {_STREAMS}" if streams else _READ
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}")


@lru_cache(maxsize=256)
def _negotiate(header: str, convertible: bool) -> Media | None:
    for media_type, params in parse_accept(header):
        if media_type not in (JSON, YAML, "*/*"):
            continue
        served = JSON if media_type == "*/*" else media_type
        convert = params.get("as", "")
        if not convert:
            return Media(served)
        known = params.get("g") == "meta.k8s.io" and params.get("v") in ("v1", "v1beta1")
        if convertible and known and convert in _TRANSFORMS:
            return Media(served, convert, params["v"])
    return None


def _is_routable(header: str) -> bool:
    """Tell whether a path's list of media types matches, so that only parameters are at fault."""
    return any(media in (*_SERVED, "*/*") for media, _ in parse_accept(header))


def body_type(header: str) -> str:
    """Return the media type of a request body.

    Raises:
        UnsupportedMediaType: the server does not read it.
    """
    if not header or header == JSON:
        return JSON
    media_type = header.partition(";")[0].strip().lower()
    if media_type not in _SERVED:
        raise unsupported(_SERVED)
    return media_type


def unsupported(accepted: tuple[str, ...]) -> UnsupportedMediaType:
    """Build the refusal of a body whose media type is not among those accepted."""
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
        None,
    )
