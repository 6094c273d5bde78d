"""The registry of built-in kinds: a `ServedKind` for each resource of the discovery table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from kubewright.api.resource import GroupVersionKind, Resource
from kubewright.local.apiserver.builtin.conversion import converter_for
from kubewright.local.apiserver.builtin.definitions import REFERENCE_PREFIX, schema_for
from kubewright.local.apiserver.builtin.discovery import (
    STORED_VERSIONS,
    APIResource,
    GroupVersion,
    group_versions,
)
from kubewright.local.apiserver.builtin.names import definition_name
from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy
from kubewright.local.apiserver.kind import ScaleMapping, ServedKind

# Subresources that ServedKind states in other ways.
_OWN_WAYS = frozenset({"status", "scale"})
_DEPRECATIONS = {
    GroupVersionKind("", "v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    GroupVersionKind("", "v1", "Endpoints"): (
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ),
}


class _ResetFields(Mapping[str, tuple[tuple[str, ...], ...]]):
    """The paths that a main and a status write may not own; read from the rules when asked for."""

    def __init__(self, strategy: BuiltinStrategy) -> None:
        self._strategy = strategy

    def __getitem__(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        if subresource == "":
            return (("status",),)
        if subresource == "status":
            return self._strategy.rules.status_resets
        raise KeyError(subresource)

    def __iter__(self) -> Iterator[str]:
        return iter(("", "status"))

    def __len__(self) -> int:
        return 2


@cache
def builtin_kinds() -> Sequence[ServedKind]:
    """Return all built-in kinds that have a resource of their own, in the order of discovery.

    Review kinds (`tokenreviews`, `subjectaccessreviews`, `bindings`) are among them: they have only
    the verb `create` and are not stored.
    """
    return tuple(
        _build_kind(group_version, entry)
        for group_version in group_versions()
        for entry in group_version.resources
        if "/" not in entry.name
    )


def _build_kind(group_version: GroupVersion, entry: APIResource) -> ServedKind:
    group, version = group_version.group, group_version.version
    resource = Resource(group, version, entry.kind, entry.name, entry.namespaced)
    definition = definition_name(resource.gvk)
    subresources = frozenset(
        other.name.partition("/")[2]
        for other in group_version.resources
        if other.name.startswith(entry.name + "/")
    )
    strategy = BuiltinStrategy(resource, definition, has_status="status" in subresources)
    stored = STORED_VERSIONS.get((group, entry.kind))
    return ServedKind(
        resource=resource,
        singular=entry.singular_name,
        list_kind=entry.kind + "List",
        strategy=strategy,
        schema=schema_for(definition),
        openapi={"$ref": REFERENCE_PREFIX + definition},
        definition=definition,
        short_names=entry.short_names,
        categories=entry.categories,
        verbs=entry.verbs,
        subresources=subresources - _OWN_WAYS,
        scale=_find_scale(resource, subresources),
        storage=None
        if stored is None
        else Resource(*stored, entry.kind, entry.name, entry.namespaced),
        convert=converter_for(resource.gvk),
        deprecation_warning=_DEPRECATIONS.get(resource.gvk),
        reset_fields=_ResetFields(strategy) if strategy.has_status else {},
    )


def _find_scale(resource: Resource, subresources: frozenset[str]) -> ScaleMapping | None:
    if "scale" not in subresources:
        return None
    # The selector is computed from spec.selector: no built-in kind has it as text.
    return ScaleMapping(selector_path=None)
