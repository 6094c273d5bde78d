"""Bodies of requests: JSON, YAML or protobuf into objects, with what was written twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.api.errors import BadRequest, RequestEntityTooLarge
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.negotiation import JSON, PROTOBUF, YAML, body_type

MAX_BODY = 3 * 1024 * 1024
_MAX_DEPTH = 1000

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Body:
    """A decoded body. `duplicates` are the complaints about fields that were given twice."""

    value: Any
    duplicates: tuple[str, ...] = ()
    duplicate_error: str = ""


class MalformedBody(Exception):
    """A body that is not of its media type; the text is the decoder's complaint."""


def check_size(body: bytes) -> None:
    """Refuse a body that is larger than the API server takes.

    Raises:
        RequestEntityTooLarge: it is over 3 MiB.
    """
    if len(body) > MAX_BODY:
        raise RequestEntityTooLarge(f"Request entity too large: limit is {MAX_BODY}", None)


def parse_body(
    request: Request,
    decode_protobuf: Callable[[bytes], Object],
    *,
    find_duplicates: bool,
) -> Body:
    """Decode a body by its Content-Type; none is JSON.

    Raises:
        UnsupportedMediaType: the type is not served.
        RequestEntityTooLarge: the body is too large.
        MalformedBody: it is not what its type says.
    """
    media_type = body_type(request.header("content-type"))
    check_size(request.body)
    if media_type == PROTOBUF:
        return Body(decode_protobuf(request.body))
    if media_type == YAML:
        return parse_yaml(request.body, find_duplicates=find_duplicates)
    assert media_type == JSON
    return parse_json(request.body, find_duplicates=find_duplicates)


def parse_json(data: bytes, *, find_duplicates: bool = False) -> Body:
    """Decode JSON.

    Raises:
        MalformedBody: it is none; the message is the one of Go's decoder.
    """
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedBody(json_problem(data) or str(error)) from None
    except RecursionError:
        raise MalformedBody("exceeded max depth") from None
    if not find_duplicates or not _may_repeat(data, value):
        return Body(value)
    found = _json_duplicates(data)
    return Body(value, found, ", ".join(found))


def _may_repeat(data: bytes, value: Any) -> bool:
    """Tell cheaply whether a key may stand twice: more colons after quotes than keys."""
    return data.count(b'":') + data.count(b'" :') != _count_keys(value)


def _count_keys(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(
            _count_keys(item) for item in value.values() if type(item) in (dict, list)
        )
    if type(value) is list:
        return sum(_count_keys(item) for item in value if type(item) in (dict, list))
    return 0


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written, keys that stand twice included."""


def _json_duplicates(data: bytes) -> tuple[str, ...]:
    found: list[str] = []
    tree = json.loads(data, object_pairs_hook=_Pairs)
    _walk_duplicates(tree, "", found)
    return tuple(f'duplicate field "{path}"' for path in found)


def _walk_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen and here not in found:
                found.append(here)
            seen.add(key)
            _walk_duplicates(item, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_duplicates(item, f"{path}[{index}]", found)


def parse_yaml(data: bytes, *, find_duplicates: bool = False) -> Body:
    """Decode the first document of a YAML stream as YAML 1.1, keys turned into strings.

    Raises:
        MalformedBody: it is no YAML.
    """
    import yaml  # most requests are JSON

    from kubewright.local.apiserver.yaml_body import load_yaml

    try:
        value, duplicates = load_yaml(data)
    except yaml.YAMLError as error:
        raise MalformedBody(f"yaml: {_first_line(str(error))}") from None
    except RecursionError:
        raise MalformedBody("exceeded max depth") from None
    if not find_duplicates or not duplicates:
        return Body(value)
    listed = "".join(f"\n  {text}" for text in duplicates)
    return Body(value, duplicates, f"yaml: unmarshal errors:{listed}")


def _first_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def json_problem(data: bytes) -> str:
    """Say what is wrong with a JSON text as Go's encoding/json does; empty where nothing is."""
    from kubewright.local.apiserver.json_problem import find_problem

    return find_problem(data.decode("utf-8", errors="replace"))


def decode_refused(kind: str, error: MalformedBody, data: bytes) -> BadRequest:
    """Build the refusal of a body that cannot be read at all."""
    text = data.decode("utf-8", errors="replace")
    shown = "<empty>" if not text else text if len(text) <= 30 else f"{text[:30]} ..."
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {error} ({shown})",
        None,
    )
