"""Bodies of requests: JSON, YAML or protobuf into objects, with what was written twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec

from kubewright.api.errors import BadRequest, RequestEntityTooLarge
from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.negotiation import JSON, PROTOBUF, YAML, body_type
from kubewright.local.apiserver.schema.json_document import DocumentError, decode_json

MAX_BODY = 3 * 1024 * 1024


class Body(msgspec.Struct, frozen=True):
    """A decoded body. `duplicates` are the complaints about fields that were given twice."""

    value: Any
    duplicates: tuple[str, ...] = ()
    duplicate_error: str = ""


class MalformedBody(Exception):
    """A body that is not of its media type; the text is the decoder's complaint."""


class NumberOutOfRange(MalformedBody):
    """A JSON body with a number that Go cannot hold."""


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
    merge: bool = False,
) -> Body:
    """Decode a body by its Content-Type; none is JSON. For `merge` see `parse_json`.

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
        return parse_yaml(request.body)
    assert media_type == JSON
    return parse_json(request.body, merge=merge)


def parse_json(data: bytes, *, merge: bool = False) -> Body:
    """Decode JSON; `merge` decodes objects that stand twice into each other (see `decode_json`).

    Raises:
        MalformedBody: it is none; the message is the one of Go's decoder.
    """
    try:
        value, duplicates = decode_json(data, merge=merge)
    except DocumentError as error:
        if number := _find_huge_number(data):
            problem = f"json: cannot unmarshal number {number} into Go value of type float64"
            raise NumberOutOfRange(problem) from None
        raise MalformedBody(json_problem(data) or str(error)) from None
    except RecursionError:
        raise MalformedBody("exceeded max depth") from None
    return Body(value, tuple(duplicates), ", ".join(duplicates))


def _find_huge_number(data: bytes) -> str:
    """Return the first number of a JSON text that no float64 can hold; empty without one."""
    huge: list[str] = []

    def read(text: str) -> float:
        number = float(text)
        if math.isinf(number):
            huge.append(text)
        return number

    try:
        json.loads(data, parse_float=read)
    except ValueError:
        return ""
    return huge[0] if huge else ""


def parse_yaml(data: bytes) -> Body:
    """Decode the first document of a YAML stream as YAML 1.1, keys turned into strings.

    Raises:
        MalformedBody: it is no YAML.
    """
    from kubewright.local.apiserver.schema.yaml_document import decode_yaml  # most are JSON

    try:
        value, duplicates = decode_yaml(data)
    except DocumentError as error:
        raise MalformedBody(str(error)) from None
    except RecursionError:
        raise MalformedBody("exceeded max depth") from None
    if not duplicates:
        return Body(value)
    listed = "".join(f"\n  {text}" for text in duplicates)
    return Body(value, tuple(duplicates), f"yaml: unmarshal errors:{listed}")


def parse_apply(data: bytes) -> Body:
    """Decode the configuration of an apply: YAML, of which JSON is the common case.

    Raises:
        MalformedBody: it is no YAML.
    """
    try:
        body = parse_json(data)
    except MalformedBody:
        return parse_yaml(data)
    # Complaints about repeated keys name lines, which only the YAML reader knows.
    return parse_yaml(data) if body.duplicates else body


def json_problem(data: bytes) -> str:
    """Say what is wrong with a JSON text as Go's encoding/json does; empty where nothing is."""
    from kubewright.local.apiserver.json_problem import find_problem

    return find_problem(data.decode("utf-8", errors="replace"))


def decode_refused(kind: str, error: MalformedBody, data: bytes) -> BadRequest:
    """Build the refusal of a body that cannot be read at all."""
    text = data.decode("utf-8", errors="replace")
    shown = "<empty>" if not text else text if len(text) <= 30 else f"{text[:30]} ..."
    if "\0" in text:
        shown = data[:30].hex()
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {error} ({shown})",
        None,
    )
