"""Cluster IPs and node ports of Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from kubewright.api.errors import Cause, InternalError, Invalid
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.storage import decode_json, key_prefix

NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_FIXED = range(1, 257)
"""Addresses that are given to Services that ask for them, until no others are left (KEP-3070)."""
_CHOSEN = range(257, NETWORK.num_addresses - 1)
_PREFIX = key_prefix("", "services")
_EXPOSED = ("NodePort", "LoadBalancer")


class ServiceAddresses:
    """Gives Services their addresses at admission, and refuses those that are taken.

    The Services themselves are the record of what is taken: there is no second one to repair.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._taken: tuple[int, set[str], set[tuple[str, int]]] | None = None

    async def mutate(self, attributes: Attributes) -> None:
        """Allocate what a Service asks for."""
        resource = attributes.kind.resource
        if resource.group or resource.plural != "services" or attributes.subresource:
            return
        if attributes.obj is None or attributes.operation not in ("CREATE", "UPDATE"):
            return
        old = attributes.old
        self._assign_ip(attributes, attributes.obj, old)
        self._assign_ports(attributes, attributes.obj, old)

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing more."""

    def _assign_ip(self, attributes: Attributes, service: Object, old: Object | None) -> None:
        spec = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            if old is not None:
                spec.pop("internalTrafficPolicy", None)
            return
        before = ((old or {}).get("spec") or {}).get("clusterIP")
        given = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if old is not None and not given and before:
            given = before
        if given == "None":
            spec["clusterIP"] = "None"
            spec["clusterIPs"] = ["None"]
        elif not given:
            given = self._free_ip()
        elif given != before:
            self._check_ip(attributes, given)
        if given:
            spec["clusterIP"] = given
            spec["clusterIPs"] = [given, *(spec.get("clusterIPs") or [])[1:]]
        # A headless Service whose endpoints others write may be of both families.
        both = given == "None" and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")

    def _free_ip(self) -> str:
        _, ips, _ = self._record()
        for band in (_CHOSEN, _FIXED):
            start = self._backend.random.randrange(len(band))
            for offset in range(len(band)):
                address = str(NETWORK[band[(start + offset) % len(band)]])
                if address not in ips:
                    return address
        raise InternalError(
            "Internal error occurred: failed to allocate a serviceIP: range is full"
        )

    def _check_ip(self, attributes: Attributes, given: str) -> None:
        try:
            address = ipaddress.ip_address(given)
        except ValueError:
            return  # the kind's validation says what is wrong with it
        problem = ""
        if address not in NETWORK:
            problem = (
                f"failed to allocate IP {given}: the provided network does not match the current "
                "range"
            )
        elif given in self._record()[1]:
            problem = f"failed to allocate IP {given}: provided IP is already allocated"
        if problem:
            shown = f'["{given}"]'
            cause = Cause(
                "FieldValueInvalid", f"Invalid value: {shown}: {problem}", "spec.clusterIPs"
            )
            raise Invalid.of("", "Service", attributes.name, [cause])

    def _assign_ports(self, attributes: Attributes, service: Object, old: Object | None) -> None:
        spec = service["spec"]
        kind = spec.get("type")
        exposes = kind in _EXPOSED
        if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            exposes = False
        before = _ports_by_key(old)
        mine = {port for port in before.values() if port}
        for index, port in enumerate(spec.get("ports") or ()):
            protocol = port.get("protocol") or "TCP"
            given = port.get("nodePort")
            if given:
                if given not in mine:
                    self._check_port(attributes, index, protocol, given)
            elif exposes:
                known = before.get((port.get("name") or "", port.get("port"), protocol))
                port["nodePort"] = known or self._free_port(protocol)

    def _check_port(self, attributes: Attributes, index: int, protocol: str, port: int) -> None:
        problem = ""
        if port not in NODE_PORTS:
            low, high = NODE_PORTS[0], NODE_PORTS[-1]
            problem = (
                f"provided port is not in the valid range. The range of valid ports is {low}-{high}"
            )
        elif (protocol, port) in self._record()[2]:
            problem = "provided port is already allocated"
        if problem:
            field = f"spec.ports[{index}].nodePort"
            cause = Cause("FieldValueInvalid", f"Invalid value: {port}: {problem}", field)
            raise Invalid.of("", "Service", attributes.name, [cause])

    def _free_port(self, protocol: str) -> int:
        _, _, ports = self._record()
        start = self._backend.random.randrange(len(NODE_PORTS))
        for offset in range(len(NODE_PORTS)):
            port = NODE_PORTS[(start + offset) % len(NODE_PORTS)]
            if (protocol, port) not in ports:
                ports.add((protocol, port))
                return port
        raise InternalError("Internal error occurred: failed to allocate a nodePort: range is full")

    def _record(self) -> tuple[int, set[str], set[tuple[str, int]]]:
        """Return what is taken, read afresh when the store has changed."""
        revision = self._backend.store.revision
        if self._taken is None or self._taken[0] != revision:
            ips: set[str] = set()
            ports: set[tuple[str, int]] = set()
            for spec in self._specs():
                ips.update(spec.get("clusterIPs") or ())
                for port in spec.get("ports") or ():
                    if port.get("nodePort"):
                        ports.add((port.get("protocol") or "TCP", port["nodePort"]))
            self._taken = (revision, ips, ports)
        return self._taken

    def _specs(self) -> Iterator[Object]:
        for item in self._backend.store.scan(_PREFIX):
            yield decode_json(item.value).get("spec") or {}


def _ports_by_key(service: Object | None) -> dict[tuple[str, int, str], int]:
    ports = ((service or {}).get("spec") or {}).get("ports") or ()
    return {
        (p.get("name") or "", p.get("port", 0), p.get("protocol") or "TCP"): p.get("nodePort") or 0
        for p in ports
    }
