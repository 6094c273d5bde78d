"""What a request's path and method ask for (the API server's RequestInfo)."""

from __future__ import annotations

import msgspec

from kubewright.local.apiserver.exchange import Request, Verb

_VERBS = {"POST": Verb.CREATE, "PUT": Verb.UPDATE, "PATCH": Verb.PATCH}


class RequestInfo(msgspec.Struct, frozen=True):
    """The parts of a resource path, or of another path where `is_resource` is false.

    `verb` is a `Verb` for resource requests and the lower-case method for others. `parts` are the
    segments behind the namespace, as many as the path has. `namespaced` tells that the path named a
    namespace, even an empty one.
    """

    is_resource: bool
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    parts: tuple[str, ...] = ()

    @property
    def resource_path(self) -> str:
        """The resource with its subresource, as authorization names it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_request(request: Request) -> RequestInfo:
    """Parse method, path and query. A trailing slash means nothing."""
    segments = request.path.strip("/").split("/")
    if len(segments) >= 3 and segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    elif len(segments) >= 4 and segments[0] == "apis":
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return RequestInfo(False, request.method.lower())
    watching = False
    if rest[0] == "watch" and len(rest) > 1:
        watching, rest = True, rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        # A namespace's own subresources are below it, like the resources in it.
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return RequestInfo(
        is_resource=True,
        verb=_verb(request, name, watching),
        group=group,
        version=version,
        namespace=namespace,
        resource=rest[0],
        name=name,
        subresource=rest[2] if len(rest) > 2 else "",
        parts=tuple(rest),
    )


def _verb(request: Request, name: str, watching: bool) -> str:
    if request.method in ("GET", "HEAD"):
        if watching:
            return Verb.WATCH
        if name:
            return Verb.GET
        # `watch=maybe` watches: the parameter is false only when it says so.
        return Verb.WATCH if request.flag("watch") else Verb.LIST
    if request.method == "DELETE":
        return Verb.DELETE if name else Verb.DELETE_COLLECTION
    return _VERBS.get(request.method, request.method.lower())
