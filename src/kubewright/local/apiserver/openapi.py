"""OpenAPI v3: the index of documents, and a document for each group version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin import definitions
from kubewright.local.apiserver.builtin.definitions import REFERENCE_PREFIX
from kubewright.local.apiserver.builtin.names import META
from kubewright.local.apiserver.exchange import Request, Response, encode_json, text_response
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.openapi_v2 import answer_v2
from kubewright.local.apiserver.registry import Registry
from kubewright.local.apiserver.version import GIT_VERSION

_ALWAYS = (f"{META}.APIResourceList", f"{META}.DeleteOptions", f"{META}.Patch", f"{META}.Status")
_KEPT = 8
_JSON = "application/json"
_YEAR = 365 * 24 * 3600


class OpenAPI:
    """Builds documents when they are asked for and keeps the last few as text."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[str, tuple[str, bytes]] = {}

    def answer(self, request: Request, segments: list[str]) -> Response | None:
        """Answer below `/openapi`; None where nothing is served there."""
        if segments == ["openapi", "v2"]:
            return answer_v2(request, self._registry)
        if segments == ["openapi", "v3"]:
            # The real server sends its index as text.
            return text_response(200, encode_json(self._index()).decode())
        if segments[:2] != ["openapi", "v3"]:
            return None
        path = "/".join(segments[2:])
        kinds = self._kinds(path)
        if not kinds:
            return Response(404, b"", "")
        body, digest = self._document(path, kinds)
        headers = [("ETag", f'"{digest}"'), ("Vary", "Accept")]
        if request.param("hash") == digest:
            headers.append(("Cache-Control", f"public, immutable, max-age={_YEAR}"))
        if request.header("if-none-match") == f'"{digest}"':
            return Response(304, b"", _JSON, headers)
        return Response(200, body, _JSON, headers)

    def _index(self) -> Object:
        paths: Object = {}
        for path in self._paths():
            digest = _digest(path, self._kinds(path))
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _paths(self) -> Iterator[str]:
        yield "api/v1"
        for group in self._registry.groups():
            for version in self._registry.group_versions(group):
                yield f"apis/{group}/{version}"

    def _kinds(self, path: str) -> list[ServedKind]:
        root, _, rest = path.partition("/")
        group, _, version = rest.rpartition("/")
        if root not in ("api", "apis") or (root == "api") != (group == ""):
            return []
        return self._registry.of_version(group, version)

    def _document(self, path: str, kinds: list[ServedKind]) -> tuple[bytes, str]:
        digest = _digest(path, kinds)
        known = self._documents.pop(path, None)
        if known is None or known[0] != digest:
            known = (digest, encode_json(build_document(path, kinds)))
        self._documents[path] = known
        while len(self._documents) > _KEPT:
            del self._documents[next(iter(self._documents))]
        return known[1], digest


def _digest(path: str, kinds: list[ServedKind]) -> str:
    """Hash what a document is made of, which is much less than the document."""
    digest = hashlib.sha512(f"{GIT_VERSION} {path}".encode())
    for kind in kinds:
        digest.update(kind.definition.encode())
        if kind.is_custom:
            digest.update(encode_json(kind.openapi))
    return digest.hexdigest().upper()


def build_document(path: str, kinds: list[ServedKind]) -> Object:
    """Build the document of a group version: its paths, and every schema that they refer to."""
    paths: Object = {}
    for kind in kinds:
        paths |= _build_paths(f"/{path}", kind)
    own: dict[str, Object] = {}
    for kind in kinds:
        if kind.is_custom:
            own[kind.definition] = kind.openapi
            own[kind.definition.rpartition(".")[0] + "." + kind.list_kind] = _list_schema(kind)
    roots = [*_ALWAYS, *(kind.definition for kind in kinds), *own]
    roots += [kind.definition + "List" for kind in kinds if not kind.is_custom]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": _collect(roots, own)},
    }


def _collect(roots: list[str], own: dict[str, Object]) -> Object:
    """Return the schemas of the roots and of all that they refer to, by name."""
    published = definitions()
    found: Object = {}
    waiting = list(dict.fromkeys(roots))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        schema = own.get(name)
        if schema is None:
            if name not in published:
                continue
            schema = _keep_descriptions(published[name])
        found[name] = schema
        waiting += _references(schema)
    return dict(sorted(found.items()))


def _keep_descriptions(schema: Object) -> Object:
    """Put references that have a description into an allOf: a $ref hides what is beside it."""
    properties = schema.get("properties") or {}
    if not any("$ref" in child and "description" in child for child in properties.values()):
        return schema
    return schema | {"properties": {key: _wrap(child) for key, child in properties.items()}}


def _wrap(schema: Object) -> Object:
    if "$ref" not in schema or "description" not in schema:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {"allOf": [{"$ref": schema["$ref"]}], **beside}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                yield item.removeprefix(REFERENCE_PREFIX)
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _list_schema(kind: ServedKind) -> Object:
    resource = kind.resource
    gvk = {"group": resource.group, "kind": kind.list_kind, "version": resource.version}
    return {
        "description": f"{kind.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {
                "description": f"List of {resource.plural}.",
                "type": "array",
                "items": _ref(kind.definition),
            },
            "kind": {"type": "string"},
            "metadata": {"allOf": [_ref(f"{META}.ListMeta")]},
        },
        "x-kubernetes-group-version-kind": [gvk],
    }


def _build_paths(root: str, kind: ServedKind) -> Object:
    resource = kind.resource
    collection = f"{root}/{resource.plural}"
    if resource.namespaced:
        collection = f"{root}/namespaces/{{namespace}}/{resource.plural}"
    item = f"{collection}/{{name}}"
    paths: Object = {}
    if resource.namespaced and "list" in kind.verbs:
        everywhere = {"get": _operation(kind, "list")}
        paths[f"{root}/{resource.plural}"] = everywhere
    paths[collection] = _operations(
        kind, {"get": "list", "post": "create", "delete": "deletecollection"}
    )
    paths[item] = _operations(
        kind, {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
    )
    main = {"get": "get", "put": "update", "patch": "patch"}
    if kind.strategy.has_status:
        paths[f"{item}/status"] = _operations(kind, main, subresource="status")
    if kind.scale:
        paths[f"{item}/scale"] = _operations(kind, main, subresource="scale")
    return {path: operations for path, operations in paths.items() if operations}


_ACTIONS = {"create": "post", "update": "put"}


def _operations(kind: ServedKind, methods: dict[str, str], subresource: str = "") -> Object:
    allowed = kind.verbs if not subresource else tuple(methods.values())
    return {
        method: _operation(kind, verb, subresource)
        for method, verb in methods.items()
        if verb in allowed
    }


def _operation(kind: ServedKind, verb: str, subresource: str = "") -> Object:
    resource = kind.resource
    gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    body = kind.definition
    if subresource == "scale":
        gvk = {"group": "autoscaling", "kind": "Scale", "version": "v1"}
        body = "io.k8s.api.autoscaling.v1.Scale"
    operation: Object = {
        "operationId": "".join((verb, resource.kind, resource.version, subresource)),
        "parameters": _parameters(verb),
        "responses": {"200": _content("OK", _answer_schema(kind, verb, body))},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": gvk,
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {_JSON: {"schema": _ref(body)}}, "required": True}
    elif verb == "patch":
        content = {"schema": _ref(f"{META}.Patch")}
        types = ["json-patch+json", "merge-patch+json", "apply-patch+yaml"]
        if not kind.is_custom:
            types.append("strategic-merge-patch+json")
        bodies = {f"application/{name}": content for name in types}
        operation["requestBody"] = {"content": bodies, "required": True}
    return operation


def _answer_schema(kind: ServedKind, verb: str, body: str) -> Object:
    if verb == "list":
        name = body + "List"
        if kind.is_custom:
            name = body.rpartition(".")[0] + "." + kind.list_kind
        return _ref(name)
    if verb in ("delete", "deletecollection"):
        return _ref(f"{META}.Status")
    return _ref(body)


def _content(description: str, schema: Object) -> Object:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _ref(name: str) -> Object:
    return {"$ref": REFERENCE_PREFIX + name}


_STRINGS = {"type": "string", "uniqueItems": True}
_INTEGERS = {"type": "integer", "uniqueItems": True}
_BOOLEANS = {"type": "boolean", "uniqueItems": True}
_READ = {
    "allowWatchBookmarks": _BOOLEANS,
    "continue": _STRINGS,
    "fieldSelector": _STRINGS,
    "labelSelector": _STRINGS,
    "limit": _INTEGERS,
    "resourceVersion": _STRINGS,
    "resourceVersionMatch": _STRINGS,
    "sendInitialEvents": _BOOLEANS,
    "timeoutSeconds": _INTEGERS,
    "watch": _BOOLEANS,
}
_WRITE = {"dryRun": _STRINGS, "fieldManager": _STRINGS, "fieldValidation": _STRINGS}
_DELETE = {
    "dryRun": _STRINGS,
    "gracePeriodSeconds": _INTEGERS,
    "orphanDependents": _BOOLEANS,
    "propagationPolicy": _STRINGS,
}
_PARAMETERS: dict[str, dict[str, Object]] = {
    "list": _READ,
    "create": _WRITE,
    "update": _WRITE,
    "patch": {**_WRITE, "force": _BOOLEANS},
    "delete": _DELETE,
    "deletecollection": {**_DELETE, **_READ},
}


def _parameters(verb: str) -> list[Object]:
    known = _PARAMETERS.get(verb, {})
    return [{"name": name, "in": "query", "schema": schema} for name, schema in known.items()]
