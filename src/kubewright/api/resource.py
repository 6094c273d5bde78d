"""Names of things: group, version, kind; the REST resource that serves a kind; keys of objects."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON has it: `apiVersion`, `kind`, `metadata` and the rest."""

SEGMENT_RULE = "a name is not '.' or '..' and holds neither '/' nor '%'"


def is_path_segment(name: str) -> bool:
    """Tell whether a name stays one segment of a path, on servers and on proxies before them.

    Kubernetes holds names of every kind to this rule (`path.IsValidPathSegmentName`).
    """
    return name not in (".", "..") and "/" not in name and "%" not in name


class NamespacedName(NamedTuple):
    """The key of an object among those of its kind; cluster-scoped objects have namespace `""`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: Object) -> NamespacedName:
        """Read the key from an object's metadata."""
        metadata = obj.get("metadata") or {}
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")


class GroupKind(NamedTuple):
    """A kind in its API group, whatever the version."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupVersionKind(NamedTuple):
    """A kind in one version of its API group; the core group is `""`.

    `str` writes it as error messages of Kubernetes do: `apps/v1, Kind=Deployment`.
    """

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Build a kind from `api_version`, such as `apps/v1` or `v1`, and its name."""
        return _parse_gvk(api_version, kind)

    @classmethod
    def of(cls, obj: Object) -> GroupVersionKind:
        """Read an object's type from its `apiVersion` and `kind`."""
        return cls.parse(obj.get("apiVersion") or "", obj.get("kind") or "")

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """This kind without its version."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


@lru_cache(maxsize=4096)
def _parse_gvk(api_version: str, kind: str) -> GroupVersionKind:
    # A cluster has some hundreds of kinds, and each object is asked for its own many times.
    group, _, version = api_version.rpartition("/")
    return GroupVersionKind(group, version, kind)


class Resource(NamedTuple):
    """A REST resource: where the API server serves the objects of one kind.

    `plural` is the name in the URL, such as `deployments`. A `namespaced` resource has its objects
    in namespaces; the others belong to the whole cluster.

    It serves where a kind is asked for, as a custom resource class does: its objects are dicts.
    `group` is empty for the core group, and `version` is without it: `v1`.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind that this resource serves."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of this resource's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> Resource:
        """The resource itself: where a class of objects is asked which resource serves them."""
        return self

    def decode(self, raw: bytes) -> Object:
        """Decode an object from its JSON text; it gets the type that items of lists lack.

        Raises:
            msgspec.DecodeError: the text is no JSON object.
        """
        # The command line loads this module for the names of things, and mostly decodes nothing.
        import msgspec

        obj: Object = {"apiVersion": self.api_version, "kind": self.kind}
        obj |= msgspec.json.decode(raw, type=dict[str, Any])
        return obj

    @property
    def group_resource(self) -> str:
        """The name that messages use: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self,
        name: str | None = None,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Build the URL path of the collection, of one object, or of its subresource.

        Without a namespace, a namespaced resource's path is that of all namespaces.
        """
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/".join(parts)

    def __str__(self) -> str:
        return self.group_resource
