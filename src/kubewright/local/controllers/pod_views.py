"""Pods as those controllers read them that count pods: a part of each, decoded once a version.

A controller that looks at all pods of an owner whenever one of them changes does work that grows
with the square of their number. Decoding is most of it: a pod's managedFields alone are larger than
what anybody counts.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    deletionTimestamp: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[dict[str, Any]] | None


class _Container(TypedDict, total=False):
    ports: list[dict[str, Any]] | None
    restartPolicy: str


class _Spec(TypedDict, total=False):
    nodeName: str
    hostname: str
    subdomain: str
    containers: list[_Container]
    initContainers: list[_Container] | None


class _ContainerStatus(TypedDict, total=False):
    restartCount: int


class _Status(TypedDict, total=False):
    phase: str
    podIP: str
    podIPs: list[dict[str, Any]] | None
    conditions: list[dict[str, Any]] | None
    containerStatuses: list[_ContainerStatus] | None


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _Spec
    status: _Status


_decode = msgspec.json.Decoder(_Pod).decode


class PodViews:
    """Decoded parts of pods: metadata, node, names, ports, phase, addresses, conditions, restarts.

    Views are shared by all who read them: nobody may change one.
    """

    def __init__(self) -> None:
        self._views: dict[NamespacedName, tuple[Entry, Object]] = {}
        self._is_following = False

    def set_up(self, cache: Cache) -> None:
        """Follow the store of pods, to forget those that are gone; once, whoever asks."""
        if not self._is_following:
            self._is_following = True
            cache.store(builtin.POD).subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self._views.pop(change.entry.key, None)

    def of(self, entry: Entry) -> Object:
        """Return the view of a pod at the version of a store's entry."""
        known = self._views.get(entry.key)
        if known is not None and known[0] is entry:
            return known[1]
        # Items of a list have neither kind nor version.
        view: Object = {"apiVersion": "v1", "kind": "Pod", **_decode(entry.raw)}
        self._views[entry.key] = (entry, view)
        return view
