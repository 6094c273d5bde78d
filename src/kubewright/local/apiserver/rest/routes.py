"""Which verb answers a request to a kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TypeAlias

from kubewright.api.errors import MethodNotAllowed, NotFound, StatusDetails
from kubewright.api.resource import Resource
from kubewright.local.apiserver.exchange import Answer, Verb
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.request import RequestInfo
from kubewright.local.apiserver.rest.call import Call

Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]
Subresources: TypeAlias = Callable[[], Mapping[tuple[str, str], Handler]]

_MAIN: dict[str, str] = {
    Verb.GET: "get.get",
    Verb.LIST: "list.list_objects",
    Verb.WATCH: "watch.watch",
    Verb.CREATE: "create.create",
    Verb.UPDATE: "update.update",
    Verb.PATCH: "patch.patch",
    Verb.DELETE: "delete.delete",
    Verb.DELETE_COLLECTION: "delete.delete_collection",
}
_STATUS: dict[str, str] = {verb: _MAIN[verb] for verb in (Verb.GET, Verb.UPDATE, Verb.PATCH)}
_REVIEWS = frozenset(
    {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)


@cache
def _load(path: str) -> Handler:
    """Return a verb's function. Its module loads with the first request: a start only creates."""
    module, _, function = path.partition(".")
    handler: Handler = getattr(import_module(f"kubewright.local.apiserver.rest.{module}"), function)
    return handler


def is_review(resource: Resource) -> bool:
    """Tell whether a resource is only asked, never stored."""
    return resource.plural in _REVIEWS


def missing_resource() -> NotFound:
    """Build the answer for a path that names nothing."""
    return NotFound("the server could not find the requested resource")


def method_not_allowed() -> MethodNotAllowed:
    """Build the answer for a method that a path does not take."""
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def find_handler(kind: ServedKind, info: RequestInfo, method: str, others: Subresources) -> Handler:
    """Return what answers a request.

    `others` returns the verbs of subresources beside status, by (subresource, verb).

    Raises:
        NotFound: the path names no resource or subresource.
        MethodNotAllowed: it names one that does not take the method.
    """
    # A proxy's path goes on behind it.
    is_deep = len(info.parts) > 3 and info.subresource != "proxy"
    if method == "HEAD" or is_deep:
        raise missing_resource() if is_deep else method_not_allowed()
    namespaced = kind.resource.namespaced
    own_namespace = bool(info.namespace) and info.resource != "namespaces"
    if namespaced and info.name and not info.namespace:
        raise missing_resource()
    if not namespaced and own_namespace:
        raise missing_resource()
    if info.subresource:
        return _find_subresource(kind, info, others)
    is_all = namespaced and not info.namespace
    if is_all and info.verb not in (Verb.LIST, Verb.WATCH):
        raise method_not_allowed()
    path = _MAIN.get(info.verb)
    on_item = info.verb in (Verb.GET, Verb.UPDATE, Verb.PATCH, Verb.DELETE)
    watching_one = info.verb == Verb.WATCH and bool(info.name)
    if path is None or info.verb not in kind.verbs:
        raise method_not_allowed()
    if on_item != bool(info.name) and not watching_one:
        raise method_not_allowed()
    return _load(path)


def _find_subresource(kind: ServedKind, info: RequestInfo, others: Subresources) -> Handler:
    name = info.subresource
    served = name in kind.subresources
    served = served or (name == "status" and kind.strategy.has_status)
    served = served or (name == "scale" and kind.scale is not None)
    if not served:
        if kind.is_custom:
            resource = kind.resource
            raise NotFound.of(resource.group, resource.plural, info.name)
        raise missing_resource()
    if name == "status":
        path = _STATUS.get(info.verb)
        handler = None if path is None else _load(path)
    else:
        handler = others().get((name, info.verb))
    if handler is None:
        raise _not_supported(kind, info) if kind.is_custom else method_not_allowed()
    return handler


def _not_supported(kind: ServedKind, info: RequestInfo) -> MethodNotAllowed:
    """Build the answer for a verb that a custom kind's path does not take."""
    resource = kind.resource
    return MethodNotAllowed(
        f'{info.verb} is not supported on resources of kind "{resource.group_resource}"',
        StatusDetails(group=resource.group, kind=resource.plural),
    )
