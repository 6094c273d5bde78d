"""What an API server serves, built-in kinds and custom ones alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubewright.api.errors import TransportError
from kubewright.api.resource import Resource
from kubewright.client.accepting import build_discovery_client
from kubewright.client.client import Client


class ServedResource(msgspec.Struct, frozen=True):
    """A resource and what may be done with it."""

    resource: Resource
    verbs: frozenset[str]


class Discovery(msgspec.Struct, frozen=True):
    """Every resource once, in its group's preferred version.

    `stale` names the group versions of aggregated API servers that do not answer: what they serve
    is not known, so nobody may conclude that it is gone.
    """

    resources: tuple[ServedResource, ...] = ()
    stale: tuple[str, ...] = ()

    def supporting(self, *verbs: str) -> list[Resource]:
        """Return the resources that support all of the verbs."""
        return [s.resource for s in self.resources if s.verbs.issuperset(verbs)]


async def discover(client: Client) -> Discovery:
    """Ask an API server for everything it serves, in two requests.

    Raises:
        TransportError: no answer came, or the server has no aggregated discovery (before v1.27).
        APIError: the server refused.
    """
    asking = build_discovery_client(client)
    resources: list[ServedResource] = []
    stale: list[str] = []
    for path in ("/api", "/apis"):
        found = decode_discovery(await asking.request("GET", path))
        resources += found.resources
        stale += found.stale
    return Discovery(tuple(resources), tuple(stale))


def decode_discovery(body: bytes) -> Discovery:
    """Read an APIGroupDiscoveryList.

    Raises:
        TransportError: the body is something else.
    """
    try:
        document = msgspec.json.decode(body)
        if document["kind"] != "APIGroupDiscoveryList":
            raise TransportError(f"discovery answered a {document['kind']}: the server is too old")
        groups: list[Mapping[str, Any]] = document.get("items") or []
        resources = [served for group in groups for served in _read_group(group)]
        stale = [name for group in groups for name in _stale_versions(group)]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise TransportError(f"discovery answered nonsense: {error}") from error
    return Discovery(tuple(resources), tuple(stale))


def _read_group(group: Mapping[str, Any]) -> Iterable[ServedResource]:
    """Yield a group's resources; versions come in order of preference, so the first one counts."""
    name = (group.get("metadata") or {}).get("name") or ""
    seen: set[str] = set()
    for version in group.get("versions") or ():
        for entry in version.get("resources") or ():
            plural, kind = entry["resource"], (entry.get("responseKind") or {}).get("kind")
            if plural in seen or not kind:
                continue
            seen.add(plural)
            resource = Resource(
                name, version["version"], kind, plural, entry.get("scope") == "Namespaced"
            )
            yield ServedResource(resource, frozenset(entry.get("verbs") or ()))


def _stale_versions(group: Mapping[str, Any]) -> Iterable[str]:
    name = (group.get("metadata") or {}).get("name") or ""
    for version in group.get("versions") or ():
        if version.get("freshness") == "Stale":
            yield f"{name}/{version['version']}" if name else version["version"]
