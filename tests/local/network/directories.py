"""Directories for the tests of the network."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.local.network.service import EndpointSlice, Service
from kubewright.local.network.service_directory import ServiceDirectory

HTTP = {"name": "http", "port": 80, "protocol": "TCP"}


def add_service(directory: ServiceDirectory, name: str, **spec: Any) -> Service:
    """Add a Service of the namespace `shop`."""
    data = {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}
    service = msgspec.convert(data, Service)
    directory.put_service(service.metadata.key, service)
    return service


def add_slice(
    directory: ServiceDirectory,
    service: str,
    *endpoints: dict[str, Any],
    ports: list[dict[str, Any]] | None = None,
    **more: Any,
) -> EndpointSlice:
    """Add an EndpointSlice of a Service."""
    metadata = {
        "name": f"{service}-{more.get('addressType', 'IPv4').lower()}",
        "namespace": "shop",
        "labels": {"kubernetes.io/service-name": service},
    }
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}] if ports is None else ports
    data = {"metadata": metadata, "endpoints": list(endpoints), "ports": ports, **more}
    found = msgspec.convert(data, EndpointSlice)
    directory.put_slice(found.metadata.key, found)
    return found


def endpoint(address: str, **more: Any) -> dict[str, Any]:
    """Build a ready endpoint; `more` may say otherwise."""
    return {"addresses": [address], "conditions": {"ready": True}, **more}
