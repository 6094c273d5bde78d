"""Requests as data: pure functions that say what goes over the wire for each verb."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from kubewright.api.resource import SEGMENT_RULE, Object, Resource, is_path_segment
from kubewright.client.transport import Query

JSON = "application/json"
APPLY = "application/apply-patch+yaml"

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
"""What becomes of the dependents of a deleted object."""

Selector: TypeAlias = str | Mapping[str, str]
"""A selector in Kubernetes' text form (`app=web,tier!=db`), or the pairs that must be equal."""

Patch: TypeAlias = Object | list[Object]
"""A patch body: a partial object, or the operations of a JSON patch."""


class PatchType(enum.Enum):
    """How a patch body is read; the values are its media types."""

    JSON = "application/json-patch+json"
    """A list of operations (RFC 6902)."""
    MERGE = "application/merge-patch+json"
    """A partial object; null deletes, lists are replaced (RFC 7386)."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """A partial object whose lists merge by key; built-in kinds only."""


class Request(msgspec.Struct, frozen=True):
    """One request, ready to be sent."""

    method: str
    path: str
    query: Query = ()
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = {}


def build_selector(selector: Selector | None) -> str:
    """Write a selector in its text form; the same pairs give the same text in any order."""
    if selector is None:
        return ""
    if isinstance(selector, str):
        return selector
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def build_path(
    resource: Resource, name: str, *, namespace: str | None, subresource: str | None = None
) -> str:
    """Build the path of one object.

    Raises:
        ValueError: the name is empty or no segment of a path, or the namespace of a namespaced
            resource is missing: the server would take the request for another one.
    """
    if not name:
        raise ValueError(f"a {resource.kind} has no name: set metadata.name")
    if not is_path_segment(name):
        raise ValueError(f"a {resource.kind} cannot have the name {name!r}: {SEGMENT_RULE}")
    require_namespace(resource, namespace)
    return resource.path(name, namespace=namespace, subresource=subresource)


def require_namespace(resource: Resource, namespace: str | None) -> None:
    """Refuse to address an object of a namespaced resource without its namespace.

    Raises:
        ValueError: the namespace is missing.
    """
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.group_resource} live in namespaces: say which namespace")


def build_list(
    resource: Resource,
    *,
    namespace: str | None = None,
    labels: Selector | None = None,
    fields: Selector | None = None,
    limit: int = 0,
    token: str = "",
    resource_version: str | None = None,
) -> Request:
    """Build the request for one page of a list; `limit` 0 asks for everything at once.

    A continued page has its version in the token, and the server refuses to be told another one.
    """
    query = _selectors(labels, fields)
    if limit:
        query.append(("limit", str(limit)))
    if token:
        query.append(("continue", token))
    elif resource_version is not None:
        query.append(("resourceVersion", resource_version))
    return Request("GET", resource.path(namespace=namespace), query)


def build_watch(
    resource: Resource,
    *,
    namespace: str | None = None,
    labels: Selector | None = None,
    fields: Selector | None = None,
    resource_version: str | None = None,
    timeout_seconds: int,
    send_initial_events: bool = False,
) -> Request:
    """Build the request for a watch with bookmarks.

    With `send_initial_events` the stream begins with the present state and marks its end by a
    bookmark (KEP-3157, WatchList).
    """
    query = _selectors(labels, fields)
    query += [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(timeout_seconds)),
    ]
    if send_initial_events:
        query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    if resource_version is not None:
        query.append(("resourceVersion", resource_version))
    return Request("GET", resource.path(namespace=namespace), query)


def build_create(resource: Resource, obj: Object, *, manager: str, dry_run: bool) -> Request:
    """Build the request that creates an object in its own namespace.

    Raises:
        ValueError: the object has no namespace and its resource is namespaced.
    """
    namespace = _namespace_of(obj)
    require_namespace(resource, namespace)
    path = resource.path(namespace=namespace)
    return Request("POST", path, _write_query(manager, dry_run), msgspec.json.encode(obj), JSON)


def build_replace(
    resource: Resource, obj: Object, *, subresource: str | None, manager: str, dry_run: bool
) -> Request:
    """Build the request that replaces an object, guarded by the resource version it carries."""
    path = _path_of(resource, obj, subresource)
    return Request("PUT", path, _write_query(manager, dry_run), msgspec.json.encode(obj), JSON)


def build_patch(
    path: str, patch: Patch, *, type: PatchType, manager: str, dry_run: bool
) -> Request:
    """Build the request that patches what is at a path."""
    body = msgspec.json.encode(patch)
    return Request("PATCH", path, _write_query(manager, dry_run), body, type.value)


def build_apply(
    resource: Resource,
    obj: Object,
    *,
    subresource: str | None,
    manager: str,
    force: bool,
    dry_run: bool,
) -> Request:
    """Build a server-side apply (KEP-555); with `force` the manager takes contested fields."""
    query = [*_write_query(manager, dry_run), ("force", "true" if force else "false")]
    path = _path_of(resource, obj, subresource)
    return Request("PATCH", path, query, msgspec.json.encode(obj), APPLY)


def build_delete(
    path: str,
    *,
    uid: str | None = None,
    resource_version: str | None = None,
    propagation: Propagation = "Background",
    grace_period_seconds: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Build the request that deletes an object, if it still is the one that was meant."""
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
    }
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    given = {key: value for key, value in preconditions.items() if value is not None}
    if given:
        options["preconditions"] = given
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return Request("DELETE", path, (), msgspec.json.encode(options), JSON)


def _selectors(labels: Selector | None, fields: Selector | None) -> list[tuple[str, str]]:
    texts = (("labelSelector", build_selector(labels)), ("fieldSelector", build_selector(fields)))
    return [(name, text) for name, text in texts if text]


def _write_query(manager: str, dry_run: bool) -> list[tuple[str, str]]:
    query = [("fieldManager", manager)] if manager else []
    return [*query, ("dryRun", "All")] if dry_run else query


def _namespace_of(obj: Object) -> str:
    return (obj.get("metadata") or {}).get("namespace") or ""


def _path_of(resource: Resource, obj: Object, subresource: str | None) -> str:
    name = (obj.get("metadata") or {}).get("name") or ""
    return build_path(resource, name, namespace=_namespace_of(obj), subresource=subresource)
