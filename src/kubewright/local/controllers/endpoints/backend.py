"""The pods behind a Service: their addresses, ports and conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubewright.api.resource import Object, Resource
from kubewright.local.controllers.pod import (
    is_pod_finished,
    is_pod_ready,
    is_pod_terminating,
    ready_condition,
)

ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
ENDPOINTS = Resource("", "v1", "Endpoints", "endpoints")

HEADLESS = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"

_ZONE = "topology.kubernetes.io/zone"
# The older way of asking for hints, which goes before the newer one.
_TOPOLOGY_MODES = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)
_NEAR = {"PreferClose": "zone", "PreferSameZone": "zone", "PreferSameNode": "node"}


class Port(msgspec.Struct, frozen=True):
    """A port of a Service as one pod offers it."""

    name: str
    number: int
    protocol: str
    app_protocol: str | None = None

    def to_object(self) -> Object:
        """Build the port as an EndpointSlice has it: the name is there also when it is empty."""
        port: Object = {"name": self.name, "port": self.number, "protocol": self.protocol}
        if self.app_protocol:
            port["appProtocol"] = self.app_protocol
        return port


class Backend(msgspec.Struct, frozen=True):
    """A pod that a Service selects, with an address."""

    address: str
    ports: tuple[Port, ...]
    ready: bool
    serving: bool
    terminating: bool
    node: str
    zone: str
    hostname: str
    target: tuple[tuple[str, str], ...]
    ready_since: str
    near: str = ""
    """What traffic should stay near to: `zone`, `node` (which asks for the zone, too) or empty."""

    def to_endpoint(self) -> Object:
        """Build the endpoint of an EndpointSlice."""
        endpoint: Object = {
            "addresses": [self.address],
            "conditions": {
                "ready": self.ready,
                "serving": self.serving,
                "terminating": self.terminating,
            },
            "targetRef": dict(self.target),
        }
        optional = {
            "hostname": self.hostname,
            "nodeName": self.node,
            "zone": self.zone,
            "hints": self._build_hints(),
        }
        return {**endpoint, **{name: value for name, value in optional.items() if value}}

    def _build_hints(self) -> Object:
        """Say from where a ready endpoint should be used (KEP-4444, KEP-3015)."""
        hints: Object = {}
        if self.near and self.ready and self.zone:
            hints["forZones"] = [{"name": self.zone}]
        if self.near == "node" and self.ready and self.node:
            hints["forNodes"] = [{"name": self.node}]
        return hints

    def to_address(self) -> Object:
        """Build the address of an Endpoints object."""
        address: Object = {"ip": self.address, "targetRef": dict(self.target)}
        optional = {"hostname": self.hostname, "nodeName": self.node}
        return {**address, **{name: value for name, value in optional.items() if value}}


def is_headless(service: Object) -> bool:
    """Tell whether a Service has no address of its own."""
    return bool(service["spec"].get("clusterIP") == "None")


def address_types(service: Object) -> list[str]:
    """Return the address families of a Service, as EndpointSlices name them."""
    return list(service["spec"].get("ipFamilies") or ["IPv4"])


def find_backends(
    service: Object,
    pods: Iterable[Object],
    family: str,
    nodes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Backend]:
    """Return the backends of one address family, in order of their addresses.

    Args:
        service: The decoded Service.
        pods: The pods that its selector selects.
        family: `IPv4` or `IPv6`.
        nodes: The labels of nodes by name, to tell the zone. A pod whose node is not among them is
            left out: it is about to be collected. None for no look at nodes.
    """
    always = bool(service["spec"].get("publishNotReadyAddresses"))
    near = _read_distribution(service)
    backends = []
    for pod in pods:
        address = _find_address(pod, family)
        if not address or is_pod_finished(pod):
            continue
        if nodes is None or always or pod["spec"].get("nodeName") in nodes:
            backends.append(_build_backend(service, pod, address, nodes or {}, near))
    return sorted(backends, key=lambda backend: backend.address)


def _read_distribution(service: Object) -> str:
    annotations = service["metadata"].get("annotations") or {}
    modes = {annotations.get(key, "").lower() for key in _TOPOLOGY_MODES}
    if modes & {"auto"}:
        return ""
    return _NEAR.get(service["spec"].get("trafficDistribution") or "", "")


def _find_address(pod: Object, family: str) -> str:
    status = pod.get("status") or {}
    addresses = [entry["ip"] for entry in status.get("podIPs") or ()] or [status.get("podIP")]
    wanted = [ip for ip in addresses if ip and (":" in ip) == (family == "IPv6")]
    return str(wanted[0]) if wanted else ""


def _build_backend(
    service: Object,
    pod: Object,
    address: str,
    nodes: Mapping[str, Mapping[str, str]],
    near: str,
) -> Backend:
    metadata, spec = pod["metadata"], pod["spec"]
    serving, terminating = is_pod_ready(pod), is_pod_terminating(pod)
    always = bool(service["spec"].get("publishNotReadyAddresses"))
    node = spec.get("nodeName") or ""
    named = spec.get("subdomain") == service["metadata"]["name"]
    return Backend(
        address=address,
        ports=tuple(_find_ports(service, pod)),
        ready=always or (serving and not terminating),
        serving=serving,
        terminating=terminating,
        node=node,
        zone=nodes.get(node, {}).get(_ZONE, ""),
        hostname=(spec.get("hostname") or "") if named else "",
        target=(
            ("kind", "Pod"),
            ("namespace", metadata["namespace"]),
            ("name", metadata["name"]),
            ("uid", metadata["uid"]),
        ),
        ready_since=(ready_condition(pod) or {}).get("lastTransitionTime") or "",
        near=near,
    )


def _find_ports(service: Object, pod: Object) -> Iterable[Port]:
    """Yield the Service's ports; one whose target the pod does not name is left out."""
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = _find_number(port.get("targetPort") or port["port"], protocol, pod)
        if number is not None:
            yield Port(port.get("name") or "", number, protocol, port.get("appProtocol"))


def _find_number(target: int | str, protocol: str, pod: Object) -> int | None:
    if isinstance(target, int):
        return target
    sidecars = [
        container
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in (*(pod["spec"].get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            same = (port.get("protocol") or "TCP") == protocol
            if same and port.get("name") == target:
                return int(port["containerPort"])
    return None


def build_labels(service: Object, own: Mapping[str, str]) -> dict[str, str]:
    """Build labels from a Service's and the controller's own."""
    labels = {k: v for k, v in (service["metadata"].get("labels") or {}).items() if k != HEADLESS}
    headless = {HEADLESS: ""} if is_headless(service) else {}
    return {**labels, **own, **headless}


def build_trigger_time(service: Object, backends: Iterable[Backend]) -> str:
    """Return when what the endpoints say last began to be so: for measuring delays."""
    moments = [service["metadata"].get("creationTimestamp") or ""]
    return max([*moments, *(backend.ready_since for backend in backends)])
