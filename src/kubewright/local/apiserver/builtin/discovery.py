"""What discovery tells of the built-in groups: the resource table in the order of a real server."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from kubewright.api.resource import Object

# The version that is stored where it is not the served one: it decides the storage hash.
STORED_VERSIONS: dict[tuple[str, str], tuple[str, str]] = {
    ("events.k8s.io", "Event"): ("", "v1"),
    ("autoscaling", "HorizontalPodAutoscaler"): ("autoscaling", "v2"),
}


class APIResource(msgspec.Struct, rename="camel", frozen=True):
    """One resource or subresource as `APIResourceList` has it."""

    name: str
    singular_name: str
    namespaced: bool
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def to_object(self, storage_version_hash: str = "") -> Object:
        """Return the entry as legacy discovery (`/api/v1`, `/apis/GROUP/VERSION`) writes it."""
        entry: Object = {
            "name": self.name,
            "singularName": self.singular_name,
            "namespaced": self.namespaced,
        }
        if self.version:
            entry |= {"group": self.group, "version": self.version}
        entry |= {"kind": self.kind, "verbs": list(self.verbs)}
        if self.short_names:
            entry["shortNames"] = list(self.short_names)
        if self.categories:
            entry["categories"] = list(self.categories)
        if storage_version_hash:
            entry["storageVersionHash"] = storage_version_hash
        return entry

    @property
    def response_kind(self) -> Object:
        """The `responseKind` of aggregated discovery: group and version only where they differ."""
        return {"group": self.group, "version": self.version, "kind": self.kind}


class _GroupVersionData(msgspec.Struct, frozen=True):
    group: str
    version: str
    resources: tuple[APIResource, ...]


class GroupVersion(msgspec.Struct, frozen=True):
    """One served version of a built-in API group and its resources, in the order of discovery."""

    group: str
    version: str
    resources: tuple[APIResource, ...]

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def resource_list(self) -> Object:
        """Build the `APIResourceList` of legacy discovery."""
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if self.group else {}),
            "groupVersion": self.api_version,
            "resources": [r.to_object(self._storage_hash(r)) for r in self.resources],
        }

    def aggregated(self) -> Object:
        """Build the entry of this version in aggregated discovery (`apidiscovery.k8s.io/v2`)."""
        resources: dict[str, Object] = {}
        for entry in self.resources:
            parent, _, subresource = entry.name.partition("/")
            if subresource:
                resources[parent].setdefault("subresources", []).append(
                    {
                        "subresource": subresource,
                        "responseKind": entry.response_kind,
                        "verbs": list(entry.verbs),
                    }
                )
            else:
                resources[parent] = self._aggregated_resource(entry)
        return {
            "version": self.version,
            "resources": list(resources.values()),
            "freshness": "Current",
        }

    def _aggregated_resource(self, entry: APIResource) -> Object:
        result: Object = {
            "resource": entry.name,
            "responseKind": entry.response_kind,
            "scope": "Namespaced" if entry.namespaced else "Cluster",
            "singularResource": entry.singular_name,
            "verbs": list(entry.verbs),
        }
        if entry.short_names:
            result["shortNames"] = list(entry.short_names)
        if entry.categories:
            result["categories"] = list(entry.categories)
        return result

    def _storage_hash(self, entry: APIResource) -> str:
        if "/" in entry.name or "delete" not in entry.verbs:
            return ""
        default = (self.group, self.version)
        group, version = STORED_VERSIONS.get((self.group, entry.kind), default)
        return storage_version_hash(group, version, entry.kind)


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Compute the `storageVersionHash` that discovery shows for a stored kind."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


@cache
def group_versions() -> tuple[GroupVersion, ...]:
    """Return the served built-in group-versions in the order in which discovery lists them.

    A group's preferred version comes first; the core group is `""`.
    """
    path = files("kubewright.local.apiserver.builtin") / "data" / "resources.json"
    data = msgspec.json.decode(path.read_bytes(), type=tuple[_GroupVersionData, ...])
    return tuple(GroupVersion(item.group, item.version, item.resources) for item in data)
