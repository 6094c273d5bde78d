"""From kinds to the resources that serve them: a built-in table first, then discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import NotFound, StatusDetails, TransportError
from kubewright.api.resource import GroupVersionKind, Object, Resource

Fetch = Callable[[str], Awaitable[bytes]]
"""Get a path and return the body, or raise the APIError that the server answered."""


class RESTMapper:
    """Find the resource that serves a kind.

    What was found once is kept. A kind that is not known makes the mapper discover its group and
    version afresh, so a CRD installed meanwhile is found. `fetch` gets the body of a path from the
    API server; `known` are the resources that need no discovery, by default the built-in ones.
    """

    def __init__(
        self, fetch: Fetch, known: Mapping[GroupVersionKind, Resource] | None = None
    ) -> None:
        self._fetch = fetch
        self._known = dict(builtin.BUILTIN if known is None else known)
        self._discovering = asyncio.Lock()

    def add(self, resource: Resource) -> None:
        """Teach the mapper a resource, such as that of a custom resource class."""
        self._known[resource.gvk] = resource

    async def resource_for(self, gvk: GroupVersionKind) -> Resource:
        """Return the resource that serves a kind.

        Raises:
            NotFound: the server serves no such kind.
            APIError: the server refuses to say what it serves.
            TransportError: no answer came.
        """
        if gvk in self._known:
            return self._known[gvk]
        async with self._discovering:
            if gvk not in self._known:
                await self._discover(gvk)
        return self._known[gvk]

    async def resource_of(self, obj: Object) -> Resource:
        """Return the resource that serves an object.

        Raises:
            ValueError: the object does not say what it is.
            NotFound: the server serves no such kind.
        """
        gvk = GroupVersionKind.of(obj)
        if not gvk.version or not gvk.kind:
            raise ValueError("the object does not say what it is: set apiVersion and kind")
        return await self.resource_for(gvk)

    async def _discover(self, gvk: GroupVersionKind) -> None:
        path = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"
        try:
            body = await self._fetch(path)
        except NotFound as error:
            raise _missing(gvk) from error
        for resource in decode_resources(gvk.group, gvk.version, body):
            self._known.setdefault(resource.gvk, resource)
        if gvk not in self._known:
            raise _missing(gvk)


def decode_resources(group: str, version: str, body: bytes) -> list[Resource]:
    """Read an APIResourceList: the resources of a group's version, without subresources.

    Raises:
        TransportError: the body is not such a list.
    """
    try:
        entries: list[dict[str, Any]] = msgspec.json.decode(body)["resources"]
        return [
            Resource(group, version, entry["kind"], entry["name"], bool(entry["namespaced"]))
            for entry in entries
            if "/" not in entry["name"]
        ]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise TransportError(
            f"discovery of {group}/{version} answered nonsense: {error}"
        ) from error


def _missing(gvk: GroupVersionKind) -> NotFound:
    hint = (
        f"is the CustomResourceDefinition for {gvk.group_kind} installed, and does it serve "
        f"version {gvk.version}?"
        if "." in gvk.group
        else "is the name spelled right, and does the server's version have it?"
    )
    return NotFound(
        f"the server has no resource for kind {gvk.kind} in {gvk.api_version}: {hint}",
        StatusDetails(group=gvk.group, kind=gvk.kind),
    )
