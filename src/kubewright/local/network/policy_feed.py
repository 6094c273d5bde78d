"""What NetworkPolicies say of this node's pods, from what the API has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kubewright.api.builtin import NETWORK_POLICY, POD
from kubewright.api.resource import NamespacedName
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.local.network.directory_feed import decode
from kubewright.local.network.dns_zone import DNS_SERVICE
from kubewright.local.network.network_policy import (
    Isolation,
    NetworkPolicy,
    PolicyPod,
    PolicyView,
    build_isolations,
)
from kubewright.local.network.service import Metadata

T = TypeVar("T")


class _Record(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of a pod."""


class _Port(_Record, frozen=True, kw_only=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class _Container(_Record, frozen=True, kw_only=True):
    ports: list[_Port] | None = None


class _Spec(_Record, frozen=True, kw_only=True):
    node_name: str = ""
    host_network: bool = False
    containers: list[_Container] = []
    init_containers: list[_Container] | None = None


class _Status(_Record, frozen=True, kw_only=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Pod(_Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PolicyFeed:
    """Reads policies, and the pods and namespaces that they speak of.

    All pods of the cluster are watched only once there is a policy. `changed` is called when what
    `read` returns may be different.
    """

    def __init__(
        self, cache: Cache, namespaces: Store, node: str, changed: Callable[[], None]
    ) -> None:
        self._cache = cache
        self._node = node
        self._changed = changed
        self._namespaces = namespaces
        self._policies = cache.store(NETWORK_POLICY)
        self._pods: Store | None = None
        self._decoded: dict[type, dict[NamespacedName, tuple[Entry, Any]]] = {}
        self._policies.subscribe(lambda change: changed())
        namespaces.subscribe(lambda change: self._note())

    @property
    def policies(self) -> Sequence[Entry]:
        """The policies."""
        return self._policies.list()

    def _note(self) -> None:
        if self._pods is not None:
            self._changed()

    async def read(self, dns_address: str) -> list[Isolation]:
        """Return what the isolated pods of the node are allowed.

        The name server counts as a pod of the namespace and labels that it has elsewhere, so that
        policies which allow DNS mean it; "" where it is one of the cluster's pods.
        """
        await self._policies.wait_synced()
        entries = self._policies.list()
        if not entries:
            return []
        if self._pods is None:
            self._pods = self._cache.store(POD)
            self._pods.subscribe(lambda change: self._changed())
        await self._pods.wait_synced()
        policies = self._decode(entries, NetworkPolicy)
        pods = [build_pod(pod) for pod in self._decode(self._pods.list(), _Pod) if is_there(pod)]
        view = PolicyView([*pods, *build_name_server(dns_address)], self._read_namespaces())
        return build_isolations(policies, view, self._node)

    def _read_namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {entry.meta.name: entry.meta.labels or {} for entry in self._namespaces.list()}

    def _decode(self, entries: Sequence[Entry], kind: type[T]) -> list[T]:
        """Decode each entry once."""
        before, now = self._decoded.get(kind, {}), {}
        for entry in entries:
            known = before.get(entry.key)
            value = known[1] if known and known[0] is entry else decode(entry, kind)
            now[entry.key] = entry, value
        self._decoded[kind] = now
        return [value for _, value in now.values() if value is not None]


def is_there(pod: _Pod) -> bool:
    """Tell whether a pod has its address: one that has ended has it no longer."""
    return bool(pod.status.pod_ip) and pod.status.phase not in ("Succeeded", "Failed")


def build_pod(pod: _Pod) -> PolicyPod:
    """Build what policies see of a pod."""
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    ports = (port for container in containers for port in container.ports or ())
    return PolicyPod(
        key=pod.metadata.key,
        address="" if ":" in pod.status.pod_ip else pod.status.pod_ip,
        labels=pod.metadata.labels or {},
        node="" if pod.spec.host_network else pod.spec.node_name,
        ports=tuple((port.name, port.protocol, port.container_port) for port in ports if port.name),
    )


def build_name_server(address: str) -> list[PolicyPod]:
    """Build the pod that policies take the node's own name server for."""
    if not address:
        return []
    ports = (("dns", "UDP", 53), ("dns-tcp", "TCP", 53))
    return [PolicyPod(DNS_SERVICE, address, {"k8s-app": "kube-dns"}, ports=ports)]
