"""The objects of metrics.k8s.io/v1beta1 and their tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from kubewright.api.metadata import ObjectMeta
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.metrics_server.usage_store import Rate

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"


def build_resource_list() -> Object:
    """Build the discovery of the group version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": plural,
                "singularName": "",
                "namespaced": kind == "PodMetrics",
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for plural, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics"))
        ],
    }


def build_group() -> Object:
    """Build the discovery of the group."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    }


def build_pod_metrics(meta: ObjectMeta, rates: Mapping[str, Rate], now: datetime) -> Object:
    """Build the metrics of a pod; its time is that of its oldest sample."""
    oldest = min(rates.values(), key=lambda rate: rate.time)
    return {
        "kind": "PodMetrics",
        "apiVersion": API_VERSION,
        "metadata": _build_metadata(meta, now),
        "timestamp": format_time(oldest.time),
        "window": format_duration(oldest.window),
        "containers": [
            {"name": name, "usage": build_usage(rate)} for name, rate in sorted(rates.items())
        ],
    }


def build_node_metrics(meta: ObjectMeta, rate: Rate, now: datetime) -> Object:
    """Build the metrics of a node."""
    return {
        "kind": "NodeMetrics",
        "apiVersion": API_VERSION,
        "metadata": _build_metadata(meta, now),
        "timestamp": format_time(rate.time),
        "window": format_duration(rate.window),
        "usage": build_usage(rate),
    }


def _build_metadata(meta: ObjectMeta, now: datetime) -> Object:
    metadata: Object = {"name": meta.name, "creationTimestamp": format_time(now)}
    if meta.namespace:
        metadata["namespace"] = meta.namespace
    if meta.labels:
        metadata["labels"] = dict(meta.labels)
    return metadata


def build_usage(rate: Rate) -> Object:
    """Write usage as quantities: processors in billionths, memory with a binary suffix."""
    return {
        "cpu": str(Quantity(f"{round(rate.cores * 1_000_000_000)}n")),
        "memory": str(_bytes(rate.memory_bytes)),
    }


def _bytes(amount: int) -> Quantity:
    quantity = Quantity("0Ki")
    quantity.value = Decimal(amount)
    return quantity


def build_list(kind: str, items: Sequence[Object]) -> Object:
    """Build a list of metrics."""
    return {
        "kind": f"{kind}List",
        "apiVersion": API_VERSION,
        "metadata": {},
        "items": list(items),
    }


def build_table(items: Sequence[Object]) -> Object:
    """Build the table of metrics: a pod's is the sum of its containers."""
    columns = [
        {
            "name": "Name",
            "type": "string",
            "format": "name",
            "description": "Name of the resource",
            "priority": 0,
        }
    ]
    names = ("cpu", "memory")
    columns += [_column(name, "quantity") for name in names] + [_column("Window", "duration")]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": columns,
        "rows": [
            {
                "cells": [
                    item["metadata"]["name"],
                    *(_total(item, name) for name in names),
                    item["window"],
                ],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": item["metadata"],
                },
            }
            for item in items
        ],
    }


def _column(name: str, form: str, text: str = "") -> Object:
    return {"name": name, "type": "string", "format": form, "description": text, "priority": 0}


def _total(item: Object, name: str) -> str:
    parts = [c["usage"] for c in item["containers"]] if "containers" in item else [item["usage"]]
    total = Quantity(parts[0][name])
    for part in parts[1:]:
        total.value += Quantity(part[name]).value
    return str(total)


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go does: `15.02s`, `1m3s`."""
    minutes, seconds = divmod(round(duration.total_seconds(), 3), 60)
    text = f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{int(minutes)}m{text}" if minutes else text
