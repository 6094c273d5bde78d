"""Rules of Service: what follows from its type, addresses that stay, ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_label,
    check_port,
    check_qualified,
    check_subdomain,
    with_faults,
)
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import AGE, NONE, column, format_age, format_labels
from kubewright.local.apiserver.field_error import duplicate, forbidden, invalid, required
from kubewright.local.apiserver.formats import check_cidr, check_ip, check_port_number
from kubewright.local.apiserver.objectmeta import dns_label, validate_labels

_HINTS = "service.kubernetes.io/topology-mode"
_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_ONLY_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_MAX_AFFINITY = 86400


def needs_address(spec: Object) -> bool:
    """Tell whether a Service has an address of its own, `None` included."""
    return spec.get("type") != "ExternalName"


def needs_node_ports(spec: Object) -> bool:
    """Tell whether the ports of a Service are served at every node."""
    if spec.get("type") == "NodePort":
        return True
    allocates = spec.get("allocateLoadBalancerNodePorts")
    return spec.get("type") == "LoadBalancer" and allocates is not False


def needs_health_port(spec: Object) -> bool:
    """Tell whether nodes serve a health check for the load balancer."""
    is_local = spec.get("externalTrafficPolicy") == "Local"
    return spec.get("type") == "LoadBalancer" and is_local


def is_headless(spec: Object) -> bool:
    """Tell whether a Service has names but no address."""
    addresses: list[str] = spec.get("clusterIPs") or [""]
    return addresses[0] == "None"


def is_external(spec: Object) -> bool:
    """Tell whether traffic from outside the cluster reaches a Service."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def keep_allocated(spec: Object, old: Object) -> None:
    """Fill in what was allocated before and the client left out; drop what no longer applies."""
    _sync_addresses(spec, old)
    if needs_address(spec) and needs_address(old):
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(key) and old.get(key):
                spec[key] = old[key]
    if needs_node_ports(spec) and needs_node_ports(old):
        _keep_node_ports(spec, old)
    if needs_health_port(spec) and needs_health_port(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    _drop_unneeded(spec, old)


def _sync_addresses(spec: Object, old: Object) -> None:
    """Let a client that knows only the singular field work on the plural one."""
    before, now = old.get("clusterIP"), spec.get("clusterIP")
    if before == now or not (
        spec.get("clusterIPs") and spec["clusterIPs"] == old.get("clusterIPs")
    ):
        if now and not spec.get("clusterIPs") and before != now:
            spec["clusterIPs"] = [now]
        return
    if now:
        spec["clusterIPs"] = [now]
    else:
        del spec["clusterIPs"]


def _keep_node_ports(spec: Object, old: Object) -> None:
    def used(ports: Object) -> set[int]:
        return {port.get("nodePort") or 0 for port in ports.get("ports") or ()}

    taken = used(spec) & used(old)
    by_name = {port.get("name"): port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        before = by_name.get(port.get("name"))
        if not port.get("nodePort") and before and before not in taken:
            port["nodePort"] = before


def _drop_unneeded(spec: Object, old: Object) -> None:
    if needs_address(old) and not needs_address(spec):
        same = [spec.get(key) == old.get(key) for key in ("clusterIP", "clusterIPs")]
        for key in ("clusterIP", "clusterIPs") if all(same) else ():
            spec.pop(key, None)
        _drop_same(spec, old, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if needs_node_ports(old) and not needs_node_ports(spec):
        before = [port.get("nodePort") for port in old.get("ports") or ()]
        if before == [port.get("nodePort") for port in spec.get("ports") or ()]:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_port(old) and not needs_health_port(spec):
        _drop_same(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_same(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_external(old) and not is_external(spec):
        _drop_same(spec, old, "externalTrafficPolicy")


def _drop_same(spec: Object, old: Object, *keys: str) -> None:
    for key in keys:
        if key in spec and spec[key] == old.get(key):
            del spec[key]


def _prepare_update(service: Object, old: Object) -> None:
    keep_allocated(service["spec"], old["spec"])
    if service["spec"].get("type") != "LoadBalancer":
        service["status"] = {**service["status"], "loadBalancer": {}}


def _validate(service: Object) -> list[Cause]:
    spec = service["spec"]
    causes = _validate_type(spec)
    names: set[str] = set()
    ports = spec.get("ports") or []
    for index, port in enumerate(ports):
        causes += _validate_port(port, len(ports) > 1, names, f"spec.ports[{index}]")
    causes += validate_labels(spec.get("selector"), "spec.selector")
    affinity = spec.get("sessionAffinity")
    causes += check_choice(affinity, _AFFINITIES, "spec.sessionAffinity")
    causes += _validate_affinity(spec)
    causes += validate_addresses(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        causes += check_endpoint_address(address, f"spec.externalIPs[{index}]")
    causes += check_choice(spec.get("type"), _TYPES, "spec.type")
    causes += _validate_port_sets(spec)
    causes += _validate_balancer(spec)
    return causes + _validate_policies(spec)


def _validate_type(spec: Object) -> list[Cause]:
    kind, causes = spec.get("type"), []
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        causes.append(invalid("spec.clusterIPs[0]", "None", detail))
    if kind != "ExternalName":
        return causes
    causes += [
        forbidden(f"spec.{key}", "may not be set for ExternalName services")
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(key) or (key == "clusterIPs" and spec.get("clusterIP"))
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + check_subdomain(name, "spec.externalName")


def _validate_port(port: Object, needs_name: bool, names: set[str], field: str) -> list[Cause]:
    causes: list[Cause] = []
    name, number = port.get("name") or "", port.get("port") or 0
    if name:
        causes += check_label(name, f"{field}.name")
        if name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
    elif needs_name:
        causes.append(required(f"{field}.name"))
    causes += with_faults(f"{field}.port", number, check_port_number(number))
    causes += check_choice(port.get("protocol"), _PROTOCOLS, f"{field}.protocol")
    causes += check_port(port.get("targetPort"), f"{field}.targetPort")
    if (protocol := port.get("appProtocol")) is not None:
        causes += check_qualified(protocol, f"{field}.appProtocol")
    return causes


def _validate_affinity(spec: Object) -> list[Cause]:
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    if spec.get("sessionAffinity") != "ClientIP" or seconds is None:
        return []
    if 0 < seconds <= _MAX_AFFINITY:
        return []
    detail = f"must be greater than 0 and less than {_MAX_AFFINITY}"
    return [invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail)]


def validate_addresses(spec: Object) -> list[Cause]:
    """Return what is wrong with the addresses and families of a Service that has any."""
    if not needs_address(spec):
        return []
    first, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    causes: list[Cause] = []
    if first and not addresses:
        causes.append(required("spec.clusterIPs"))
    elif first and addresses[0] != first:
        detail = "first value must match `clusterIP`"
        causes.append(invalid("spec.clusterIPs", addresses, detail))
    elif not first and addresses:
        detail = "must be empty when `clusterIP` is not specified"
        causes.append(invalid("spec.clusterIPs", addresses, detail))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        causes += check_choice(family, ("IPv4", "IPv6"), f"spec.ipFamilies[{index}]")
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                causes.append(invalid("spec.clusterIPs", addresses, detail))
            continue
        causes += with_faults(f"spec.clusterIPs[{index}]", address, check_ip(address))
    return causes


def check_endpoint_address(address: str, field: str) -> list[Cause]:
    """Check an address that traffic is sent to: a valid one, and no special one."""
    faults = check_ip(address)
    if faults:
        return with_faults(field, address, faults)
    ip = ipaddress.ip_address(address)
    if ip.is_unspecified:
        return [invalid(field, address, f"may not be unspecified ({address})")]
    if ip.is_loopback:
        detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        return [invalid(field, address, detail)]
    if ip.is_link_local:
        detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        return [invalid(field, address, detail)]
    if ip.is_multicast and (ip.version == 4 and address.startswith("224.0.0.")):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        return [invalid(field, address, detail)]
    return []


def _validate_port_sets(spec: Object) -> list[Cause]:
    ports, causes = spec.get("ports") or [], []
    if spec.get("type") == "ClusterIP":
        detail = "may not be used when `type` is 'ClusterIP'"
        causes += [
            forbidden(f"spec.ports[{index}].nodePort", detail)
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("nodePort") or 0)
        if key[1] and key in node_ports:
            causes.append(duplicate(f"spec.ports[{index}].nodePort", key[1]))
        node_ports.add(key)
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port") or 0)
        if key in numbers:
            causes.append(duplicate(f"spec.ports[{index}]", _go_port(*key)))
        numbers.add(key)
    return causes


def _go_port(protocol: str, port: int) -> Object:
    """Write a port as the message prints it: the key of a set, most of it unset."""
    unset = {"NodePort": 0}
    return {
        "Name": "",
        "Protocol": protocol,
        "AppProtocol": None,
        "Port": port,
        "TargetPort": 0,
        **unset,
    }


def _validate_balancer(spec: Object) -> list[Cause]:
    is_balancer, causes = spec.get("type") == "LoadBalancer", []
    field = "spec.LoadBalancerSourceRanges"
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and not is_balancer:
        causes.append(forbidden(field, _ONLY_BALANCER))
    for index, text in enumerate(ranges):
        causes += with_faults(f"{field}[{index}]", text.strip(), check_cidr(text.strip()))
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balancer:
        causes.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCER))
    name = spec.get("loadBalancerClass")
    if name is not None and is_balancer:
        causes += check_qualified(name, "spec.loadBalancerClass")
    elif name is not None:
        causes.append(forbidden("spec.loadBalancerClass", _ONLY_BALANCER))
    return causes


def _validate_policies(spec: Object) -> list[Cause]:
    external, causes = spec.get("externalTrafficPolicy"), []
    if is_external(spec):
        causes += check_choice(external, _POLICIES, "spec.externalTrafficPolicy", needed=True)
    elif external:
        detail = "may only be set for externally-accessible services"
        causes.append(invalid("spec.externalTrafficPolicy", external, detail))
    health = spec.get("healthCheckNodePort")
    if health and not needs_health_port(spec):
        detail = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        causes.append(invalid("spec.healthCheckNodePort", health, detail))
    internal = spec.get("internalTrafficPolicy")
    causes += check_choice(internal, _POLICIES, "spec.internalTrafficPolicy")
    distribution = spec.get("trafficDistribution")
    return causes + check_choice(distribution, _DISTRIBUTIONS, "spec.trafficDistribution")


def _validate_update(service: Object, old: Object) -> list[Cause]:
    spec, before = service["spec"], old["spec"]
    if not needs_address(spec) or not needs_address(before):
        return []
    new, had = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if is_headless(spec) and is_headless(before):
        return []
    return [
        invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")
        for index, address in enumerate(had)
        if index < len(new) and new[index] != address
    ]


def _validate_status(service: Object, old: Object) -> list[Cause]:
    ingress = (service["status"].get("loadBalancer") or {}).get("ingress") or []
    field = "status.loadBalancer.ingress"
    if service["spec"].get("type") != "LoadBalancer" and ingress:
        return [forbidden(field, "may only be used when `spec.type` is 'LoadBalancer'")]
    causes: list[Cause] = []
    for index, item in enumerate(ingress):
        address, name = item.get("ip") or "", item.get("hostname") or ""
        if address:
            causes += with_faults(f"{field}[{index}].ip", address, check_ip(address))
        if name:
            causes += check_subdomain(name, f"{field}[{index}].hostname")
    return causes


def _warnings(service: Object, old: Object | None) -> list[str]:
    spec = service["spec"]
    found = []
    if _OLD_HINTS in (service["metadata"].get("annotations") or {}):
        found.append(f"annotation {_OLD_HINTS} is deprecated, please use {_HINTS} instead")
    is_named = spec.get("type") == "ExternalName"
    if is_headless(spec):
        found += [
            f"spec.{key} is ignored for headless services"
            for key in ("loadBalancerIP", "externalIPs")
            if spec.get(key)
        ]
        if spec.get("sessionAffinity") not in (None, "", "None"):
            found.append("spec.SessionAffinity is ignored for headless services")
    elif spec.get("externalIPs") and not is_named:
        found.append(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        )
    if is_named and spec.get("externalIPs"):
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not is_named and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _external_address(service: Object) -> str:
    spec = service["spec"]
    extra = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = (service["status"].get("loadBalancer") or {}).get("ingress") or ()
            found = sorted(
                {item.get("ip") or item.get("hostname") or "" for item in ingress} - {""}
            )
            return ",".join([*found, *extra]) or "<pending>"
    return ",".join(extra) or NONE


def _port_text(port: Object) -> str:
    number, protocol = port.get("port", 0), port.get("protocol", "")
    node_port = port.get("nodePort")
    return f"{number}:{node_port}/{protocol}" if node_port else f"{number}/{protocol}"


def _cells(service: Object, now: datetime) -> list[Any]:
    spec = service["spec"]
    ports = ",".join(_port_text(port) for port in spec.get("ports") or ())
    addresses = spec.get("clusterIPs") or [NONE]
    return [
        spec.get("type", ""),
        addresses[0],
        _external_address(service),
        ports or NONE,
        format_age(service, now),
        format_labels(spec.get("selector")),
    ]


RULES: Mapping[str, Rules] = {
    "Service": Rules(
        name_rule=dns_label,
        allow_create_on_update=True,
        prepare_for_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
        validate_status_update=_validate_status,
        warnings=_warnings,
        fields={
            "spec.clusterIP": text_at("spec", "clusterIP"),
            "spec.type": text_at("spec", "type"),
        },
        table=Table(
            (
                column("Type"),
                column("Cluster-IP"),
                column("External-IP"),
                column("Port(s)"),
                AGE,
                column("Selector", wide=True),
            ),
            _cells,
        ),
    ),
}
