"""The labels that tell the pods of one object from all others. Pure.

They are two of those that Kubernetes recommends ("Recommended Labels"), and never change: the
selector of a Deployment or a StatefulSet is immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubewright.api.resource import NamespacedName
from kubewright.cache.entry import Entry
from kubewright.runtime.watch import map_to_label

INSTANCE = "app.kubernetes.io/instance"
_NAME = "app.kubernetes.io/name"


def build_instance_labels(app: str, instance: str) -> dict[str, str]:
    """Return the labels by which to select the pods of an object.

    Arguments:
        app: what runs, such as `memcached`; each kind has a word of its own.
        instance: the name of the object, 63 characters at most.
    """
    return {_NAME: app, INSTANCE: instance}


def format_selector(labels: Mapping[str, str]) -> str:
    """Write labels as a selector, as the status field does that an autoscaler reads."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def map_to_instance(entry: Entry) -> Iterable[NamespacedName]:
    """Map a pod to the object that its instance label names, for a `Watch`.

    Pods belong to a ReplicaSet or a StatefulSet: no owner reference leads to the object.
    """
    return _map(entry)


_map = map_to_label(INSTANCE)
