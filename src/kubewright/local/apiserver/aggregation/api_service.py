"""What an APIService says: which group version, served by which Service, and if it is there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.api.conditions import (
    Condition,
    ConditionStatus,
    is_condition_true,
    set_condition,
)
from kubewright.api.resource import Object
from kubewright.local.apiserver.service_endpoint import (
    ServiceEndpoint,
    find_endpoint,
    find_port_name,
    list_slices,
    read_service,
)
from kubewright.local.store import VersionedStore

AVAILABLE = "Available"


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service behind a group version."""

    namespace: str
    name: str
    port: int

    @property
    def server_name(self) -> str:
        """The name that the server's certificate must have."""
        return f"{self.name}.{self.namespace}.svc"


class AggregatedVersion(msgspec.Struct, frozen=True):
    """A group version that another API server serves, as its APIService describes it."""

    name: str
    group: str
    version: str
    service: ServiceReference
    ca_bundle: str = ""
    is_insecure: bool = False
    group_priority: int = 0
    version_priority: int = 0
    is_available: bool = False

    @classmethod
    def of(cls, obj: Object) -> AggregatedVersion | None:
        """Read an APIService; None where this server itself serves what it names."""
        spec: Mapping[str, Any] = obj.get("spec") or {}
        service = spec.get("service")
        if service is None:
            return None
        port = service.get("port")
        reference = ServiceReference(
            service.get("namespace") or "",
            service.get("name") or "",
            443 if port is None else int(port),
        )
        return cls(
            obj["metadata"]["name"],
            spec.get("group") or "",
            spec.get("version") or "",
            reference,
            spec.get("caBundle") or "",
            bool(spec.get("insecureSkipTLSVerify")),
            int(spec.get("groupPriorityMinimum") or 0),
            int(spec.get("versionPriority") or 0),
            is_condition_true(obj, AVAILABLE),
        )

    @property
    def path(self) -> str:
        """The path of its discovery, which every aggregated API server must answer."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def check_service(store: VersionedStore, version: AggregatedVersion) -> Condition | None:
    """Return the condition of a version whose Service cannot work; None where it may."""
    reference = version.service
    where = f'service/{reference.name} in "{reference.namespace}"'
    service = read_service(store, reference.namespace, reference.name)
    if service is None:
        return build_condition("False", "ServiceNotFound", f"{where} is not present")
    if ((service.get("spec") or {}).get("type") or "ClusterIP") != "ClusterIP":
        return None
    port_name = find_port_name(service, reference.port)
    if port_name is None:
        text = f"{where} is not listening on port {reference.port}"
        return build_condition("False", "ServicePortError", text)
    slices = list_slices(store, reference.namespace, reference.name)
    if not slices:
        text = f"cannot find endpointslices for {where}"
        return build_condition("False", "EndpointsNotFound", text)
    if not any(_has_address(each, port_name) for each in slices):
        text = f'endpointslices for {where} have no addresses with port name "{port_name}"'
        return build_condition("False", "MissingEndpoints", text)
    return None


def locate(
    store: VersionedStore, reference: ServiceReference, choose: random.Random
) -> ServiceEndpoint:
    """Find where a Service is reached: at its external name, or at one of its ready endpoints.

    Raises:
        LookupError: it is not there, or nobody is behind it.
    """
    service = read_service(store, reference.namespace, reference.name) or {}
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return ServiceEndpoint(str(spec.get("externalName")), reference.port)
    return find_endpoint(store, reference.namespace, reference.name, reference.port, choose)


def _has_address(endpoint_slice: Object, port_name: str) -> bool:
    endpoints = endpoint_slice.get("endpoints") or ()
    is_ready = any((e.get("conditions") or {}).get("ready") is not False for e in endpoints)
    ports = endpoint_slice.get("ports") or ()
    return is_ready and any((p.get("name") or "") == port_name and p.get("port") for p in ports)


def build_condition(status: ConditionStatus, reason: str, message: str) -> Condition:
    """Build the condition that says whether a version is served."""
    return Condition(AVAILABLE, status, reason, message)


def with_condition(obj: Object, condition: Condition, now: str) -> Object:
    """Return an APIService with a condition in its status."""
    status = obj.get("status") or {}
    conditions = set_condition(status.get("conditions") or (), condition, now=now)
    return {**obj, "status": {**status, "conditions": conditions}}
