"""Allocation of cluster addresses and node ports to Services."""

from __future__ import annotations

import ipaddress
import random
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from kubewright.api.errors import Cause, Invalid
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.builtin.core_services import (
    is_headless,
    keep_allocated,
    needs_address,
    needs_health_port,
    needs_node_ports,
    validate_addresses,
)
from kubewright.local.apiserver.field_error import invalid

DEFAULT_RANGE = "10.96.0.0/16"
NODE_PORTS = range(30000, 32768)
# Services that are being written while others are allocated.
_REMEMBERED = 1024


class _Port(msgspec.Struct, rename="camel"):
    node_port: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    cluster_ips: list[str] = msgspec.field(name="clusterIPs", default_factory=list)
    ports: list[_Port] = msgspec.field(default_factory=list)
    health_check_node_port: int = 0


class _Service(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Service).decode


class ServiceAddresses:
    """An admission plugin that gives Services their addresses and node ports.

    The real server does this in the storage of Services, before they are validated.

    Args:
        services: returns the JSON texts of all stored Services.
        rng: decides which free address is taken.
        network: the range of cluster addresses.
    """

    def __init__(
        self,
        services: Callable[[], Iterable[bytes]],
        rng: random.Random,
        network: str = DEFAULT_RANGE,
    ) -> None:
        self._services = services
        self._rng = rng
        self._network = ipaddress.ip_network(network)
        self._recent: deque[str | int] = deque(maxlen=_REMEMBERED)

    async def mutate(self, attributes: Attributes) -> None:
        """Allocate what the Service needs and does not name.

        Raises:
            Invalid: an address or port that it names is taken, or out of range.
        """
        resource = attributes.kind.resource
        if (resource.group, resource.kind) != ("", "Service") or attributes.subresource:
            return
        if attributes.obj is None or attributes.operation not in ("CREATE", "UPDATE"):
            return
        spec = attributes.obj["spec"] = {**attributes.obj.get("spec", {})}
        spec["ports"] = [dict(port) for port in spec.get("ports") or ()]
        if not spec["ports"]:
            del spec["ports"]
        old = (attributes.old or {}).get("spec") or {}
        if attributes.old is not None:
            keep_allocated(spec, old)
        used = self._used()
        used -= _taken_by(old)
        causes = self._allocate_address(spec, old, used, attributes.dry_run)
        causes = causes or self._allocate_ports(spec, old, used, attributes.dry_run)
        if causes:
            raise Invalid.of("", "Service", attributes.name, causes)

    async def validate(self, attributes: Attributes) -> None:
        """Nothing is left to judge."""

    def _used(self) -> set[str | int]:
        used: set[str | int] = set(self._recent)
        for raw in self._services():
            spec = _decode(raw).spec
            used.update(spec.cluster_ips)
            used.update(port.node_port for port in spec.ports)
            used.add(spec.health_check_node_port)
        return used

    def _take(self, value: str | int, dry_run: bool) -> None:
        if not dry_run:
            self._recent.append(value)

    def _allocate_address(
        self, spec: Object, old: Object, used: set[str | int], dry_run: bool
    ) -> list[Cause]:
        if not needs_address(spec) or spec.get("type") not in _TYPES:
            return []
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if causes := validate_addresses(spec):
            return causes
        addresses = spec.get("clusterIPs") or []
        if not is_headless(spec) and addresses != (old.get("clusterIPs") or []):
            if causes := self._check_addresses(addresses, used):
                return causes
            if not addresses:
                addresses = [self._free_address(used)]
                self._take(addresses[0], dry_run)
                spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        elif not addresses:
            addresses = [self._free_address(used)]
            self._take(addresses[0], dry_run)
            spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        _set_families(spec)
        return []

    def _check_addresses(self, addresses: list[str], used: set[str | int]) -> list[Cause]:
        for address in addresses:
            problem = ""
            if ipaddress.ip_address(address) not in self._network:
                problem = "the provided network does not match the current range"
            elif address in used:
                problem = "provided IP is already allocated"
            if problem:
                detail = f"failed to allocate IP {address}: {problem}"
                return [invalid("spec.clusterIPs", addresses, detail)]
        return []

    def _free_address(self, used: set[str | int]) -> str:
        # The first addresses are for those who ask by number, such as DNS.
        low, high = 256, self._network.num_addresses - 2
        while True:
            address = str(self._network[self._rng.randint(low, high)])
            if address not in used:
                return address

    def _allocate_ports(
        self, spec: Object, old: Object, used: set[str | int], dry_run: bool
    ) -> list[Cause]:
        had = _taken_by(old)
        if needs_node_ports(spec):
            for index, port in enumerate(spec.get("ports") or ()):
                number = port.get("nodePort") or 0
                if not number:
                    port["nodePort"] = number = self._free_port(used)
                    self._take(number, dry_run)
                elif number not in had and (cause := _check_port(number, used, index)):
                    return [cause]
                used.add(number)
        if needs_health_port(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._free_port(used)
            self._take(spec["healthCheckNodePort"], dry_run)
        return []

    def _free_port(self, used: set[str | int]) -> int:
        while True:
            port = self._rng.choice(NODE_PORTS)
            if port not in used:
                return port


_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")


def _taken_by(spec: Object) -> set[str | int]:
    ports = {port.get("nodePort") or 0 for port in spec.get("ports") or ()}
    return {*(spec.get("clusterIPs") or ()), *ports, spec.get("healthCheckNodePort") or 0}


def _check_port(number: int, used: set[str | int], index: int) -> Cause | None:
    field = f"spec.ports[{index}].nodePort"
    if number not in NODE_PORTS:
        detail = (
            "provided port is not in the valid range. The range of valid ports is"
            f" {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
        )
        return invalid(field, number, detail)
    return invalid(field, number, "provided port is already allocated") if number in used else None


def _set_families(spec: Object) -> None:
    """State the family of the addresses; a headless Service without selector may have both."""
    addresses = spec.get("clusterIPs") or []
    if not spec.get("ipFamilies"):
        is_six = bool(addresses) and addresses[0] != "None" and ":" in addresses[0]
        spec["ipFamilies"] = ["IPv6" if is_six else "IPv4"]
    headless_anywhere = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless_anywhere else "SingleStack")
    if headless_anywhere and len(spec["ipFamilies"]) == 1 and spec["ipFamilyPolicy"] == "RequireDualStack":
        spec["ipFamilies"] = [*spec["ipFamilies"], "IPv6" if spec["ipFamilies"] == ["IPv4"] else "IPv4"]
