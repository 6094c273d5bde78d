"""What else a controller watches, and which of its objects that concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from kubewright.api.resource import GroupKind, GroupVersionKind, NamespacedName, Resource
from kubewright.cache.entry import Change, Entry

MapFunction: TypeAlias = Callable[[Entry], Iterable[NamespacedName]]
ChangeFilter: TypeAlias = Callable[[Change], bool]


def is_any_change(change: Change) -> bool:
    """Let every change through."""
    return True


@dataclass(frozen=True, slots=True)
class Watch:
    """Map changes of a resource to the keys to reconcile.

    `map` is called with the object as it is now and, after a change, as it was before: an object
    that stops concerning a key still wakes it once. It must be cheap: use an index rather than a
    scan. `changes` may keep out changes that can never matter; it saves work and must not decide.
    """

    resource: Resource
    map: MapFunction
    changes: ChangeFilter = is_any_change


def map_to_itself(entry: Entry) -> Iterable[NamespacedName]:
    """Map an object to its own key."""
    return (entry.meta.key,)


def map_to_controller(kind: Resource) -> MapFunction:
    """Build the map from an object to the key of its controller owner of a kind.

    The API version of the reference does not matter, only its group: an owner keeps its children
    when its kind is served in another version.
    """
    wanted = GroupKind(kind.group, kind.kind)

    def owner(entry: Entry) -> Iterable[NamespacedName]:
        reference = entry.meta.controller
        if reference is None:
            return ()
        gvk = GroupVersionKind.parse(reference.api_version, reference.kind)
        if gvk.group_kind != wanted:
            return ()
        return (NamespacedName(entry.meta.namespace if kind.namespaced else "", reference.name),)

    return owner


def map_to_label(label: str) -> MapFunction:
    """Build the map from an object to the key that a label names, in the object's namespace.

    For grandchildren: the pods of a Deployment, which carry `app.kubernetes.io/instance`.
    """

    def named(entry: Entry) -> Iterable[NamespacedName]:
        name = (entry.meta.labels or {}).get(label)
        return (NamespacedName(entry.meta.namespace, name),) if name else ()

    return named


def changed_keys(map: MapFunction, change: Change) -> list[NamespacedName]:
    """Return the keys that a change concerns, each once."""
    keys = list(map(change.entry))
    if change.old is not None:
        keys += map(change.old)
    return list(dict.fromkeys(keys))
