"""What else a controller watches, and which of its objects that concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import GroupKind, GroupVersionKind, NamespacedName, Resource
from kubewright.cache.entry import Change, ChangeType, Entry

MapFunction: TypeAlias = Callable[[Entry], Iterable[NamespacedName]]
ChangeFilter: TypeAlias = Callable[[Change], bool]


def is_any_change(change: Change) -> bool:
    """Let every change through."""
    return True


def generation_changed(change: Change) -> bool:
    """Let a change through when what its author wants has changed: the spec, not the status.

    Objects that come or go, and those whose deletion begins, always pass. So do kinds without
    generations, such as ConfigMap and Secret: nothing tells what changed in them.
    """
    meta, old = change.entry.meta, _old_meta(change)
    return (
        old is None
        or not meta.generation
        or meta.generation != old.generation
        or meta.is_deleting is not old.is_deleting
    )


def labels_changed(change: Change) -> bool:
    """Let a change through when the labels differ, or the object comes or goes."""
    old = _old_meta(change)
    return old is None or (change.entry.meta.labels or {}) != (old.labels or {})


def annotations_changed(change: Change) -> bool:
    """Let a change through when the annotations differ, or the object comes or goes."""
    old = _old_meta(change)
    return old is None or (change.entry.meta.annotations or {}) != (old.annotations or {})


def any_of(*filters: ChangeFilter) -> ChangeFilter:
    """Build the filter that lets through what one of several lets through.

    `any_of(generation_changed, labels_changed, annotations_changed)` keeps out status alone.
    """
    return lambda change: any(passes(change) for passes in filters)


def all_of(*filters: ChangeFilter) -> ChangeFilter:
    """Build the filter that lets through what all of several let through."""
    return lambda change: all(passes(change) for passes in filters)


def is_same_intent(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Tell whether two states of an object say the same of what it should be.

    Labels and annotations count: a desired function may read them, and to touch an annotation is
    how people ask for another try. Without a generation, any two versions differ.
    """
    return (
        bool(one.generation)
        and one.generation == other.generation
        and one.uid == other.uid
        and one.is_deleting is other.is_deleting
        and (one.labels or {}) == (other.labels or {})
        and (one.annotations or {}) == (other.annotations or {})
    )


def _old_meta(change: Change) -> ObjectMeta | None:
    """Return the metadata before a modification; None when the object comes or goes."""
    if change.type is not ChangeType.MODIFIED or change.old is None:
        return None
    return change.old.meta


class Watch(msgspec.Struct, frozen=True):
    """Map changes of a resource to the keys to reconcile.

    `map` is called with the object as it is now and, after a change, as it was before: an object
    that stops concerning a key still wakes it once. It must be cheap: use an index rather than a
    scan. `changes` may keep out changes that can never matter; it saves work and must not decide.
    With `is_start_known` the first state of the resource wakes nobody: every key that it could name
    is reconciled at a start anyway.
    """

    resource: Resource
    map: MapFunction
    changes: ChangeFilter = is_any_change
    is_start_known: bool = False


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
