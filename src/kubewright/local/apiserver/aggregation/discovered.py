"""What aggregated API servers serve, in the form of this server's own discovery. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubewright.api.resource import Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def read_version(content_type: str, body: bytes, group: str, version: str) -> Object | None:
    """Read a version from an APIGroupDiscoveryList; None where the answer is something else.

    Raises:
        msgspec.DecodeError: the body is no JSON.
    """
    if "APIGroupDiscoveryList" not in content_type:
        return None
    document: Mapping[str, Any] = msgspec.json.decode(body)
    for item in document.get("items") or ():
        if ((item.get("metadata") or {}).get("name") or "") != group:
            continue
        for each in item.get("versions") or ():
            if each.get("version") == version:
                return {**each, "freshness": "Current"}
    return build_empty(version)


def build_empty(version: str) -> Object:
    """Build the entry of a version of which nothing is known."""
    return {"version": version, "resources": [], "freshness": "Stale"}


def convert_resources(body: bytes, group: str, version: str) -> Object:
    """Build the entry of a version from its APIResourceList.

    Raises:
        msgspec.DecodeError: the body is no JSON.
        KeyError: it is something else.
    """
    listed: Sequence[Mapping[str, Any]] = msgspec.json.decode(body)["resources"]
    resources: dict[str, Object] = {}
    for entry in listed:
        if "/" not in entry["name"]:
            resources[entry["name"]] = _build_resource(entry, group, version)
    for entry in listed:
        plural, _, subresource = entry["name"].partition("/")
        if subresource and plural in resources:
            subresources = resources[plural].setdefault("subresources", [])
            subresources.append(
                {
                    "subresource": subresource,
                    "responseKind": _build_kind(entry, group, version),
                    "verbs": list(entry.get("verbs") or ()),
                }
            )
    return {"version": version, "resources": list(resources.values()), "freshness": "Current"}


def _build_resource(entry: Mapping[str, Any], group: str, version: str) -> Object:
    resource: Object = {
        "resource": entry["name"],
        "responseKind": _build_kind(entry, group, version),
        "scope": "Namespaced" if entry.get("namespaced") else "Cluster",
        "singularResource": entry.get("singularName") or "",
        "verbs": list(entry.get("verbs") or ()),
    }
    for key in ("shortNames", "categories"):
        if entry.get(key):
            resource[key] = list(entry[key])
    return resource


def _build_kind(entry: Mapping[str, Any], group: str, version: str) -> Object:
    return {
        "group": entry.get("group") or group,
        "version": entry.get("version") or version,
        "kind": entry.get("kind") or "",
    }
