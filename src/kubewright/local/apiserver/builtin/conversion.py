"""Conversion between the two served versions of a kind that shares its storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.builtin.autoscaler_conversion import (
    to_autoscaler_v1,
    to_autoscaler_v2,
)
from kubewright.local.apiserver.builtin.codec import decode
from kubewright.local.apiserver.builtin.names import definition_name

_EVENT = GroupVersionKind("", "v1", "Event")
_NEW_EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
# Fields of events.k8s.io/v1 and what core/v1 calls them.
_RENAMED = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _rename(obj: Object, names: Mapping[str, str], gvk: GroupVersionKind) -> Object:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    renamed["apiVersion"] = gvk.api_version
    # The two groups differ in which empty fields they write.
    return decode(renamed, definition_name(gvk), gvk).obj


def with_core_names(event: Object) -> Object:
    """Return an Event of events.k8s.io under core/v1's names, for who only reads it."""
    return {_RENAMED.get(key, key): value for key, value in event.items()}


def to_core_event(obj: Object) -> Object:
    """Turn an Event of either group into one of core/v1."""
    if obj.get("apiVersion") != _NEW_EVENT.api_version:
        return obj
    return _rename(obj, _RENAMED, _EVENT)


def to_new_event(obj: Object) -> Object:
    """Turn an Event of either group into one of events.k8s.io/v1."""
    if obj.get("apiVersion") == _NEW_EVENT.api_version:
        return obj
    return _rename(obj, {old: new for new, old in _RENAMED.items()}, _NEW_EVENT)


CONVERTERS: Mapping[GroupVersionKind, Callable[[Object], Object]] = {
    _EVENT: to_core_event,
    _NEW_EVENT: to_new_event,
    GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"): to_autoscaler_v1,
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): to_autoscaler_v2,
}


def converter_for(gvk: GroupVersionKind) -> Callable[[Object], Object] | None:
    """Return the function that turns an object of another version into this kind's version."""
    return CONVERTERS.get(gvk)
