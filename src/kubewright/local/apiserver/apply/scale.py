"""Managers of `spec.replicas`, as they are seen through the scale subresource and back.

A Scale has its replicas elsewhere than the object that it scales, and is of another version; so its
managedFields are made from the object's, and put back into them after a write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from kubewright.api.resource import Object
from kubewright.local.apiserver.apply.field_set import FieldSet
from kubewright.local.apiserver.apply.managers import Manager, read_managers, sort_managers

SCALE_VERSION = "autoscaling/v1"

ReplicasPaths: TypeAlias = Mapping[str, Sequence[str]]
"""By apiVersion, the field names on the way to the replicas."""

_IN_SCALE = FieldSet.of([("f:spec", "f:replicas")])


def build_scale_managers(entries: Sequence[Object] | None, paths: ReplicasPaths) -> list[Object]:
    """Return the managedFields of a Scale: who owns the replicas of the object.

    Args:
        entries: the object's managedFields.
        paths: where the object's versions have their replicas; other versions are passed over.
    """
    owners = [
        replace(manager, fields=_IN_SCALE, api_version=SCALE_VERSION, source=None)
        for manager in read_managers(entries).values()
        if _owns(manager, paths)
    ]
    return [manager.to_object() for manager in sort_managers(owners)]


def build_parent_managers(
    entries: Sequence[Object] | None,
    scale_entries: Sequence[Object] | None,
    *,
    api_version: str,
    paths: ReplicasPaths,
) -> list[Object]:
    """Return the object's managedFields after a write to its Scale.

    Who lost the replicas in the Scale loses them in the object. A manager that is new to the
    replicas has no time, as in a real API server.

    Args:
        entries: the object's managedFields before.
        scale_entries: the managedFields of the Scale that was written.
        api_version: the object's version.
        paths: where the object's versions have their replicas; managers of others are dropped.
    """
    owners = read_managers(scale_entries)
    before = read_managers(entries)
    kept: list[Manager] = []
    for identity, manager in before.items():
        if manager.api_version not in paths:
            continue
        if _owns(manager, paths):
            if identity in owners:
                del owners[identity]
            else:
                own = _path(paths[manager.api_version])
                manager = manager.owning(manager.fields.difference(own))
        if manager.fields:
            kept.append(manager)
    for identity, owner in owners.items():
        if owner.fields.intersection(_IN_SCALE):
            time = before[identity].time if identity in before else ""
            fields = _path(paths[api_version])
            kept.append(
                replace(owner, fields=fields, api_version=api_version, time=time, source=None)
            )
    return [manager.to_object() for manager in sort_managers(kept)]


def _path(names: Sequence[str]) -> FieldSet:
    return FieldSet.of([["f:" + name for name in names]])


def _owns(manager: Manager, paths: ReplicasPaths) -> bool:
    names: Any = paths.get(manager.api_version)
    return names is not None and manager.fields.has(["f:" + name for name in names])
