"""The Endpoints object of a Service: subsets of addresses with equal ports. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import Object
from kubewright.local.controllers.endpoints.backend import (
    TRIGGER_TIME,
    Backend,
    Port,
    build_labels,
    build_trigger_time,
)

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
CONTROLLER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

MAX_ADDRESSES = 1000


def build_endpoints(service: Object, backends: Sequence[Backend], before: Object | None) -> Object:
    """Build the Endpoints object; terminating pods are in it only where unready ones are published.

    An Endpoints object has room for 1000 addresses: ready ones come first, and an annotation says
    that there were more.
    """
    has_ports = bool(service["spec"].get("ports"))
    shown = [
        backend
        for backend in backends
        if (not backend.terminating or backend.ready) and (backend.ports or not has_ports)
    ]
    shown.sort(key=lambda backend: (not backend.ready, backend.address))
    annotations = {TRIGGER_TIME: build_trigger_time(service, shown)}
    if len(shown) > MAX_ADDRESSES:
        annotations[OVER_CAPACITY] = "truncated"
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    metadata = dict(before["metadata"]) if before else {"name": name, "namespace": namespace}
    metadata["labels"] = build_labels(service, {MANAGED_BY: CONTROLLER})
    metadata["annotations"] = annotations
    endpoints: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    subsets = build_subsets(shown[:MAX_ADDRESSES])
    if subsets:
        endpoints["subsets"] = subsets
    return endpoints


def build_subsets(backends: Sequence[Backend]) -> list[Object]:
    """Group addresses by their ports."""
    groups: dict[tuple[Port, ...], list[Backend]] = {}
    for backend in backends:
        groups.setdefault(backend.ports, []).append(backend)
    subsets = []
    for ports, members in sorted(groups.items(), key=lambda group: str(group[0])):
        subset: Object = {}
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            addresses = [member.to_address() for member in members if member.ready is ready]
            if addresses:
                subset[field] = addresses
        if ports:
            subset["ports"] = [_build_port(port) for port in ports]
        subsets.append(subset)
    return subsets


def _build_port(port: Port) -> Object:
    return {name: value for name, value in port.to_object().items() if value != ""}


def is_same_endpoints(before: Object, wanted: Object) -> bool:
    """Tell whether an object says what it should; when that began is no reason to write it."""
    same_labels = before["metadata"].get("labels") == wanted["metadata"]["labels"]
    return same_labels and (before.get("subsets") or []) == (wanted.get("subsets") or [])
