"""PATCH: JSON patch, merge patch, strategic merge patch, server-side apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kubewright.api.errors import BadRequest, Cause, Invalid, UnsupportedMediaType
from kubewright.api.resource import Object
from kubewright.local.apiserver.bodies import (
    Body,
    MalformedBody,
    check_size,
    parse_apply,
    parse_json,
)
from kubewright.local.apiserver.builtin.codec import WrongType
from kubewright.local.apiserver.exchange import Response
from kubewright.local.apiserver.field_management import apply
from kubewright.local.apiserver.negotiation import unsupported
from kubewright.local.apiserver.options import FieldValidation, WriteOptions, parse_write_options
from kubewright.local.apiserver.patch import json_patch, merge_patch, strategic_merge
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.decode import (
    check_name,
    check_namespace,
    go_type,
    keep_manager_reset,
    metadata_of,
    unknown_fields,
)
from kubewright.local.apiserver.rest.update import Change, change_object
from kubewright.local.apiserver.schema.json_value import format_go

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
APPLY_CBOR = "application/apply-patch+cbor"

ApplyPatch = Callable[[Object], Any]
"""Turns a stored object into the patched one."""


def patch_type(call: Call) -> str:
    """Return the media type of the request's patch.

    Raises:
        UnsupportedMediaType: it is unknown, or the kind does not take it.
    """
    media_type = call.request.header("content-type").partition(";")[0].strip()
    if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH, APPLY_CBOR):
        if call.kind.is_custom:
            raise unsupported((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
        raise UnsupportedMediaType("415: Unsupported Media Type")
    if media_type == APPLY_CBOR or (media_type == STRATEGIC_PATCH and call.kind.is_custom):
        strategic = () if call.kind.is_custom else (STRATEGIC_PATCH,)
        raise unsupported((JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH))
    return media_type


async def patch(call: Call) -> Response:
    """Change the object, or its status, as the patch says; an apply may create it."""
    media_type = patch_type(call)
    check_size(call.request.body)
    applying = media_type == APPLY_PATCH
    options = parse_write_options(call.request, "PatchOptions", apply=applying)
    if applying:
        change = _build_apply(call, options)
    else:
        run, body = build_patch(call, media_type)

        async def patched(live: Object | None) -> Object:
            return _patched(call, options, run, live, body)

        change = Change(
            transform=patched,
            options=options,
            subresource=call.info.subresource,
        )
    raw, created = await change_object(call, change)
    return call.answer(201 if created else 200, raw)


def _build_apply(call: Call, options: WriteOptions) -> Change:
    config = read_apply(call, options)
    metadata = metadata_of(config)
    if not isinstance(metadata, dict):
        raise BadRequest("error decoding YAML: metadata must be an object", None)
    subresource = call.info.subresource

    async def transform(live: Object | None) -> Object:
        version = metadata.get("resourceVersion")
        if live is not None and version and version != live["metadata"]["resourceVersion"]:
            raise call.conflict()
        applied = await apply(call, options, live, config, subresource)
        check_name(call, applied)
        check_namespace(call, applied)
        return applied

    return Change(transform, options, subresource, tracked=True, creates=not subresource)


def read_apply(call: Call, options: WriteOptions) -> Object:
    """Read the configuration of an apply.

    Raises:
        BadRequest: it is no YAML object, or has a key twice under Strict.
    """
    try:
        body = parse_apply(call.request.body)
    except MalformedBody as error:
        raise BadRequest(f"error encoding patch: {error}", None) from None
    if body.value is None:
        raise BadRequest("invalid object type: /, Kind=", None)
    if not isinstance(body.value, dict):
        raise BadRequest(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {go_type(body.value)} into Go value of type map[string]interface {{}}",
            None,
        )
    if body.duplicates and options.field_validation == FieldValidation.STRICT:
        raise BadRequest(
            f"error strict decoding patch: error converting YAML to JSON: {body.duplicate_error}",
            None,
        )
    if options.field_validation == FieldValidation.WARN:
        call.request.warnings += body.duplicates
    value: Object = body.value
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field, ""), str):
            raise BadRequest(f"error decoding YAML: {field} must be a string", None)
    return value


def build_patch(call: Call, media_type: str) -> tuple[ApplyPatch, Body]:
    """Read the patch and return what applies it.

    Raises:
        BadRequest: the body is no such patch.
    """
    try:
        body = parse_json(call.request.body)
    except MalformedBody as error:
        if media_type != STRATEGIC_PATCH:
            raise BadRequest("invalid JSON patch", None) from None
        raise BadRequest(str(error), None) from None
    value = body.value
    if media_type == JSON_PATCH:
        return (lambda obj: json_patch.apply_patch(obj, value)), body
    if media_type == MERGE_PATCH:
        return (lambda obj: merge_patch.apply_patch(obj, value)), body
    schema = call.kind.schema
    return (lambda obj: strategic_merge.apply_patch(obj, value, schema)), body


def _patched(
    call: Call, options: WriteOptions, run: ApplyPatch, live: Object | None, body: Body
) -> Object:
    assert live is not None  # only an apply creates
    obj = decode_patched(call, options, run(live), body)
    if not metadata_of(obj).get("name"):
        obj["metadata"]["name"] = call.name
    check_name(call, obj)
    check_namespace(call, obj)
    return obj


def decode_patched(call: Call, options: WriteOptions, value: Any, body: Body) -> Object:
    """Decode what a patch made of an object, and fill in defaults.

    Raises:
        Invalid: the result has wrong types, or unknown fields under Strict.
    """
    if not isinstance(value, dict):
        raise _refused(call, value, body, "json: cannot unmarshal into an object")
    strategy = call.kind.strategy
    try:
        decoded = strategy.decode(value)
    except BadRequest as error:
        raise _refused(call, value, body, _wrong_type(call, error)) from None
    unknown = unknown_fields(decoded.unknown)
    if options.field_validation == FieldValidation.STRICT and (unknown or body.duplicates):
        problems = ", ".join([*body.duplicates, *unknown])
        raise _refused(call, value, body, f"strict decoding error: {problems}")
    if options.field_validation == FieldValidation.WARN:
        for warning in (*body.duplicates, *unknown):
            if warning not in call.request.warnings:
                call.request.warnings.append(warning)
    obj = decoded.obj
    _check_kind(call, value, body)
    keep_manager_reset(obj, value)
    strategy.default(obj)
    return obj


def _check_kind(call: Call, value: Object, body: Body) -> None:
    """Refuse a patch that makes a built-in object one of another kind or version."""
    resource = call.kind.resource
    if call.kind.is_custom:
        return
    found = (value.get("apiVersion"), value.get("kind"))
    if found != (resource.api_version, resource.kind):
        problem = f"unable to convert to {resource.api_version}, {resource.kind}"
        raise _refused(call, value, body, problem)


def _wrong_type(call: Call, error: BadRequest) -> str:
    if isinstance(error, WrongType) and patch_type(call) == STRATEGIC_PATCH:
        return error.conversion
    _, _, problem = error.message.partition(" cannot be handled as a ")
    _, _, problem = problem.partition(": ")
    return problem or error.message


def _refused(call: Call, value: Any, body: Body, problem: str) -> Invalid:
    """Refuse a patch: a strategic one is shown as it was sent, others by what they make."""
    if patch_type(call) == STRATEGIC_PATCH:
        shown = format_go(body.value)
    else:
        shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    message = f"Invalid value: {json.dumps(shown, ensure_ascii=False)}: {problem}"
    return Invalid.of("", "", "", [Cause("FieldValueInvalid", message, "patch")])
