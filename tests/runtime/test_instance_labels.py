"""Labels that lead from an object to its pods and back."""

from __future__ import annotations

import json

from kubewright.api import builtin
from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import NamespacedName
from kubewright.cache.entry import Entry
from kubewright.client.objects import RawObject
from kubewright.runtime.instance_labels import (
    build_instance_labels,
    format_selector,
    map_to_instance,
)


def build_entry(labels: dict[str, str]) -> Entry:
    pod = {"metadata": {"name": "pod", "namespace": "ns", "labels": labels}}
    raw = json.dumps(pod).encode()
    return Entry(builtin.POD, RawObject(decode_metadata(raw), raw))


def test_a_pod_leads_back_to_the_object_that_it_is_for() -> None:
    labels = build_instance_labels("memcached", "cache")

    assert list(map_to_instance(build_entry(labels))) == [NamespacedName("ns", "cache")]
    assert list(map_to_instance(build_entry({}))) == []


def test_a_selector_is_written_as_autoscalers_read_it() -> None:
    labels = build_instance_labels("memcached", "cache")

    assert format_selector(labels) == (
        "app.kubernetes.io/name=memcached,app.kubernetes.io/instance=cache"
    )
