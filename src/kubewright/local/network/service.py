"""Services and EndpointSlices, as far as the network needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubewright.api.resource import NamespacedName, Resource

ENDPOINT_SLICE: Final = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
HEADLESS = "None"
KUBERNETES = NamespacedName("default", "kubernetes")


class _Record(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an object; what the network does not need is left out."""


class Metadata(_Record, frozen=True, kw_only=True):
    """Name and labels."""

    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None

    @property
    def key(self) -> NamespacedName:
        """The object's key."""
        return NamespacedName(self.namespace, self.name)


class ServicePort(_Record, frozen=True, kw_only=True):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0


class ClientIPConfig(_Record, frozen=True, kw_only=True):
    """How long an affinity lasts."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(_Record, frozen=True, kw_only=True):
    """The settings of session affinity."""

    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(_Record, frozen=True, kw_only=True):
    """What a Service is."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    cluster_ips: list[str] | None = msgspec.field(default=None, name="clusterIPs")
    external_ips: list[str] | None = msgspec.field(default=None, name="externalIPs")
    external_name: str = ""
    selector: dict[str, str] | None = None
    ports: list[ServicePort] | None = None
    session_affinity: str = "None"
    session_affinity_config: SessionAffinityConfig | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None


class Service(_Record, frozen=True, kw_only=True):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()

    @property
    def addresses(self) -> Sequence[str]:
        """The virtual addresses of the Service; none for a headless or external one."""
        spec = self.spec
        if spec.type == "ExternalName":
            return ()
        found = spec.cluster_ips or [spec.cluster_ip]
        return [address for address in found if address and address != HEADLESS]

    @property
    def is_headless(self) -> bool:
        """Tell whether the Service's name leads to its pods' own addresses."""
        return self.spec.type != "ExternalName" and self.spec.cluster_ip == HEADLESS

    @property
    def ports(self) -> Sequence[ServicePort]:
        """The ports, if there are any."""
        return self.spec.ports or ()


class EndpointConditions(_Record, frozen=True, kw_only=True):
    """How an endpoint is; what is not said counts as good."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Hint(_Record, frozen=True, kw_only=True):
    """A zone or a node that an endpoint is for."""

    name: str


class Hints(_Record, frozen=True, kw_only=True):
    """Which zones and nodes an endpoint is for."""

    for_zones: list[Hint] | None = None
    for_nodes: list[Hint] | None = None

    @property
    def zones(self) -> set[str]:
        """The names of the zones."""
        return {hint.name for hint in self.for_zones or ()}

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes."""
        return {hint.name for hint in self.for_nodes or ()}


class Endpoint(_Record, frozen=True, kw_only=True):
    """One backend."""

    addresses: list[str]
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    node_name: str | None = None
    hints: Hints = Hints()

    @property
    def is_ready(self) -> bool:
        """Tell whether the endpoint takes new connections."""
        return self.conditions.ready is not False

    @property
    def is_serving(self) -> bool:
        """Tell whether the endpoint answers, even while it ends; unset means as `ready`."""
        serving = self.conditions.serving
        return self.is_ready if serving is None else serving

    @property
    def is_terminating(self) -> bool:
        """Tell whether the endpoint ends."""
        return self.conditions.terminating is True


class EndpointPort(_Record, frozen=True, kw_only=True):
    """A port that the endpoints of a slice have; a port of None means all ports."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(_Record, frozen=True, kw_only=True):
    """Some endpoints of a Service."""

    metadata: Metadata
    address_type: str = "IPv4"
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None

    @property
    def service(self) -> NamespacedName | None:
        """The Service that the slice belongs to, if any."""
        name = (self.metadata.labels or {}).get(SERVICE_NAME_LABEL)
        return NamespacedName(self.metadata.namespace, name) if name else None
