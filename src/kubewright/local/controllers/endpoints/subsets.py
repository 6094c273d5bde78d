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
from kubewright.local.controllers.endpoints.subset_order import port_order, subset_order

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
    """Group ports that the same addresses offer, and list each group with its addresses.

    Backends without any port are a group of their own.
    """
    offers: dict[Port | None, list[Backend]] = {}
    for backend in backends:
        for port in backend.ports or (None,):
            offers.setdefault(port, []).append(backend)
    groups: dict[tuple[str, ...], list[Port]] = {}
    members: dict[tuple[str, ...], list[Backend]] = {}
    for port, offering in offers.items():
        key = tuple(backend.address for backend in offering)
        members[key] = offering
        ports = groups.setdefault(key, [])
        ports += [port] if port is not None else []
    subsets = [_build_subset(groups[key], members[key]) for key in groups]
    return sorted(subsets, key=subset_order)


def _build_subset(ports: Sequence[Port], members: Sequence[Backend]) -> Object:
    subset: Object = {}
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        addresses = [member.to_address() for member in members if member.ready is ready]
        if addresses:
            subset[field] = sorted(addresses, key=lambda address: str(address["ip"]))
    if ports:
        subset["ports"] = sorted((_build_port(port) for port in ports), key=port_order)
    return subset


def _build_port(port: Port) -> Object:
    return {name: value for name, value in port.to_object().items() if value != ""}


def is_same_endpoints(before: Object, wanted: Object) -> bool:
    """Tell whether an object says what it should; when that began is no reason to write it."""
    same_labels = before["metadata"].get("labels") == wanted["metadata"]["labels"]
    return same_labels and (before.get("subsets") or []) == (wanted.get("subsets") or [])
