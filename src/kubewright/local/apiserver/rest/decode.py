"""The body of a write, as an object of the kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kubewright.api.errors import BadRequest
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.bodies import (
    Body,
    MalformedBody,
    NumberOutOfRange,
    decode_refused,
    parse_body,
)
from kubewright.local.apiserver.exchange import Request
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.negotiation import PROTOBUF
from kubewright.local.apiserver.options import FieldValidation, WriteOptions
from kubewright.local.apiserver.rest.call import Call


def decode_body(call: Call, options: WriteOptions) -> Object:
    """Decode and default the object in the request's body.

    Raises:
        BadRequest: it cannot be read, is of another kind, or has unknown fields under Strict.
        UnsupportedMediaType: its media type is not served.
    """
    request, kind = call.request, call.kind
    body = read_body(request, kind)
    if body.value is None:
        body = Body({})
    if not isinstance(body.value, dict):
        raise _not_an_object(kind, body.value, request.body)
    obj = check_type(kind, body.value, request.body)
    return decode_object(call, options, obj, body)


def read_body(request: Request, kind: ServedKind) -> Body:
    """Decode a body, which should be of a kind.

    Raises:
        BadRequest: it is not what its media type says.
        UnsupportedMediaType: its media type is not served.
    """
    from kubewright.local.apiserver import protobuf_body

    name = kind.resource.kind
    try:
        return parse_body(
            request,
            lambda data: protobuf_body.decode(data, name),
            # Go decodes into structs and maps in place; custom objects are read as values.
            merge=not kind.is_custom,
        )
    except NumberOutOfRange as error:
        what = f'{name} in version "{kind.resource.version}" cannot be handled as a {name}'
        raise BadRequest(f"{what}: {error}", None) from None
    except MalformedBody as error:
        raise decode_refused(name, error, request.body) from None


def decode_object(call: Call, options: WriteOptions, obj: Object, body: Body) -> Object:
    """Check types, drop or refuse unknown fields, fill in defaults.

    Raises:
        BadRequest: a type is wrong, or fields are unknown or given twice under Strict.
    """
    kind = call.kind
    decoded = kind.strategy.decode(obj)
    unknown = unknown_fields(decoded.unknown)
    # A protobuf body was decoded by the schema already: it has no unknown fields to tell of.
    if call.request.header("content-type").startswith(PROTOBUF):
        unknown = []
    if options.field_validation == FieldValidation.STRICT and (unknown or body.duplicates):
        problems = [body.duplicate_error] if body.duplicate_error else []
        raise BadRequest(
            f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a '
            f"{kind.resource.kind}: strict decoding error: {', '.join([*problems, *unknown])}",
            None,
        )
    if options.field_validation == FieldValidation.WARN:
        call.request.warnings += [*body.duplicates, *unknown]
    result = decoded.obj
    keep_manager_reset(result, obj)
    kind.strategy.default(result)
    return result


def unknown_fields(paths: Iterable[str]) -> list[str]:
    """Word the complaints about fields that the kind does not have."""
    return [f"unknown field {json.dumps(path, ensure_ascii=False)}" for path in paths]


def keep_manager_reset(decoded: Object, source: Object) -> None:
    """Keep an empty managedFields, which decoding drops: it asks to forget all managers."""
    metadata = source.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        metadata_of(decoded)["managedFields"] = []


def check_type(kind: ServedKind, obj: Object, data: bytes) -> Object:
    """Check kind and apiVersion of a body against the path; built-in kinds may leave them out.

    Raises:
        BadRequest: they do not fit.
    """
    resource = kind.resource
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if value is not None and not isinstance(value, str):
            found = go_type(value)
            text = data.decode("utf-8", errors="replace")
            shown = text if len(text) <= 30 else f"{text[:30]} ..."
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {resource.kind}): couldn't "
                f"get version/kind; json parse error: json: cannot unmarshal {found} into Go "
                f"struct field .{field} of type string ({shown})",
                None,
            )
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if kind.is_custom and not (api_version and name):
        missing = "Kind" if not name else "apiVersion"
        shown = json.dumps(obj, separators=(",", ":"), ensure_ascii=False)
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object "
            f"'{missing}' is missing in '{shown}'",
            None,
        )
    gvk = GroupVersionKind.parse(api_version or resource.api_version, name or resource.kind)
    if (gvk.group, gvk.version) != (resource.group, resource.version):
        raise BadRequest(
            f"the API version in the data ({gvk.api_version}) does not match the expected API "
            f"version ({resource.api_version})",
            None,
        )
    if gvk.kind != resource.kind and not kind.is_custom:
        internal = resource.group.partition(".")[0] or "core"
        raise BadRequest(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {resource.kind}: '
            f"converting ({gvk.version}.{gvk.kind}) to ({internal}.{resource.kind}): unknown "
            "conversion",
            None,
        )
    head: Object = {"kind": gvk.kind, "apiVersion": resource.api_version}
    return head | {key: value for key, value in obj.items() if key not in head}


def _not_an_object(kind: ServedKind, value: Any, data: bytes) -> BadRequest:
    shown = data.decode("utf-8", errors="replace")[:30]
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind.resource.kind}): couldn't "
        f"get version/kind; json parse error: json: cannot unmarshal {go_type(value)} into Go "
        f"value of type struct {{ APIVersion string; Kind string }} ({shown})",
        None,
    )


def go_type(value: Any) -> str:
    """Return what Go's JSON decoder calls the type of a value."""
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


def metadata_of(obj: Object) -> Object:
    """Return the metadata of an object, which then has one."""
    metadata: Object | None = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    return metadata


def check_namespace(call: Call, obj: Object) -> None:
    """Give an object the namespace of its path.

    Raises:
        BadRequest: it names another one.
    """
    metadata = metadata_of(obj)
    if not call.kind.resource.namespaced:
        # A namespace given to a cluster-scoped object is dropped (rest.EnsureObjectNamespace…).
        metadata.pop("namespace", None)
        return
    if (metadata.get("namespace") or call.namespace) != call.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request",
            None,
        )
    metadata["namespace"] = call.namespace


def check_name(call: Call, obj: Object) -> None:
    """Check that an object has the name of its path.

    Raises:
        BadRequest: it has none, or another one.
    """
    name = metadata_of(obj).get("name") or ""
    if not name:
        raise BadRequest(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be "
            "provided",
            None,
        )
    if name != call.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})",
            None,
        )
