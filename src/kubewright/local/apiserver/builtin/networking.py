"""Rules of the networking.k8s.io group."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_immutable,
    check_label,
    check_port,
    check_present,
    check_selector,
    check_subdomain,
    with_faults,
)
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NAME,
    NONE,
    column,
    format_age,
    format_selector,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required
from kubewright.local.apiserver.formats import (
    check_cidr,
    check_port_name,
    check_port_number,
    check_wildcard_subdomain,
)

_CLASS = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_MOST = 3


def _validate_ingress(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    causes: list[Cause] = []
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        causes.append(invalid("spec", None, detail))
    for index, rule in enumerate(rules):
        causes += _validate_rule(rule, f"spec.rules[{index}]")
    if backend is not None:
        causes += _validate_backend(backend, "spec.defaultBackend")
    for index, item in enumerate(spec.get("tls") or ()):
        for position, host in enumerate(item.get("hosts") or ()):
            causes += _check_name(host, f"spec.tls[{index}].hosts[{position}]")
        if name := item.get("secretName"):
            causes += check_subdomain(name, f"spec.tls[{index}].secretName")
    if name := spec.get("ingressClassName"):
        causes += check_subdomain(name, "spec.ingressClassName")
        annotation = (obj["metadata"].get("annotations") or {}).get(_CLASS)
        is_new = not obj["metadata"].get("resourceVersion")
        if is_new and annotation is not None and annotation != name:
            detail = "must match `ingressClassName` when both are specified"
            causes.append(invalid(f"annotations.{_CLASS}", annotation, detail))
    return causes


def _validate_rule(rule: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if host := rule.get("host"):
        causes += _check_host(host, f"{field}.host")
    paths = (rule.get("http") or {}).get("paths") or []
    if "http" in rule and not paths:
        causes.append(required(f"{field}.http.paths"))
    for index, path in enumerate(paths):
        causes += _validate_path(path, f"{field}.http.paths[{index}]")
    return causes


def _check_name(host: str, field: str) -> list[Cause]:
    if "*" in host:
        return with_faults(field, host, check_wildcard_subdomain(host))
    return check_subdomain(host, field)


def _check_host(host: str, field: str) -> list[Cause]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _check_name(host, field)
    return [invalid(field, host, "must be a DNS name, not an IP address")]


def _validate_path(path: Object, field: str) -> list[Cause]:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    causes: list[Cause] = []
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            causes.append(invalid(f"{field}.path", text, "must be an absolute path"))
        causes += [
            invalid(f"{field}.path", text, f"must not contain '{bad}'")
            for bad in _BAD_PATHS
            if bad in text
        ]
        causes += [
            invalid(f"{field}.path", text, f"cannot end with '{bad}'")
            for bad in _BAD_ENDS
            if text.endswith(bad)
        ]
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            causes.append(invalid(f"{field}.path", text, "must be an absolute path"))
    else:
        causes.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    return causes + _validate_backend(path.get("backend") or {}, f"{field}.backend")


def _validate_backend(backend: Object, field: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return check_present(resource, "kind", f"{field}.resource")
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    causes = check_present(service, "name", f"{field}.service")
    name = service.get("name") or ""
    if name:
        causes += check_label(name, f"{field}.service.name")
    port = service.get("port") or {}
    number, port_name = port.get("number") or 0, port.get("name") or ""
    if number and port_name:
        causes.append(invalid(field, "", "cannot set both port name & port number"))
    elif port_name:
        place = f"{field}.service.port.name"
        causes += with_faults(place, port_name, check_port_name(port_name))
    elif number:
        place = f"{field}.service.port.number"
        causes += with_faults(place, number, check_port_number(number))
    else:
        causes.append(required(field, "port name or number is required"))
    return causes


def _warn_of_annotation(obj: Object, old: Object | None) -> list[str]:
    annotations = obj["metadata"].get("annotations") or {}
    if old is not None or _CLASS not in annotations:
        return []
    return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _ingress_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    shown = ",".join(hosts[:_MOST]) or "*"
    if len(spec.get("rules") or ()) > _MOST:
        shown = f"{shown} + {len(spec['rules']) - _MOST} more..."
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    addresses = sorted({item.get("ip") or item.get("hostname") or "" for item in ingress} - {""})
    return [
        spec.get("ingressClassName") or NONE,
        shown,
        ",".join(addresses),
        "80, 443" if spec.get("tls") else "80",
        format_age(obj, now),
    ]


def _validate_policy(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = check_selector(spec.get("podSelector"), "spec.podSelector")
    for index, rule in enumerate(spec.get("ingress") or ()):
        causes += _validate_peers(rule, "from", f"spec.ingress[{index}]")
    for index, rule in enumerate(spec.get("egress") or ()):
        causes += _validate_peers(rule, "to", f"spec.egress[{index}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        causes.append(
            invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        )
        return causes
    for index, kind in enumerate(types):
        causes += check_choice(kind, ("Ingress", "Egress"), f"spec.policyTypes[{index}]")
    return causes


def _validate_peers(rule: Object, side: str, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, port in enumerate(rule.get("ports") or ()):
        place = f"{field}.ports[{index}]"
        causes += check_choice(port.get("protocol"), ("TCP", "UDP", "SCTP"), f"{place}.protocol")
        if port.get("port") is not None:
            causes += check_port(port["port"], f"{place}.port")
        causes += _check_end_port(port, f"{place}.endPort")
    for index, peer in enumerate(rule.get(side) or ()):
        causes += _validate_peer(peer, f"{field}.{side}[{index}]")
    return causes


def _check_end_port(port: Object, field: str) -> list[Cause]:
    start, end = port.get("port"), port.get("endPort")
    if end is None:
        return []
    if start is None:
        return [invalid(field, end, "may not be specified when `port` is not specified")]
    if isinstance(start, str):
        return [invalid(field, end, "may not be specified when `port` is non-numeric")]
    if end < start:
        return [invalid(field, end, "must be greater than or equal to `port`")]
    return []


def _validate_peer(peer: Object, field: str) -> list[Cause]:
    if not peer:
        return [required(field, "must specify a peer")]
    causes = check_selector(peer.get("podSelector"), f"{field}.podSelector")
    causes += check_selector(peer.get("namespaceSelector"), f"{field}.namespaceSelector")
    block = peer.get("ipBlock")
    if block is None:
        return causes
    if len(peer) > 1:
        causes.append(forbidden(field, "may not specify both ipBlock and another peer"))
    cidr = block.get("cidr") or ""
    if not cidr:
        return [*causes, required(f"{field}.ipBlock.cidr")]
    faults = with_faults(f"{field}.ipBlock.cidr", cidr, check_cidr(cidr))
    if faults:
        return causes + faults
    for index, text in enumerate(block.get("except") or ()):
        causes += _check_exception(text, cidr, f"{field}.ipBlock.except[{index}]")
    return causes


def _check_exception(text: str, cidr: str, field: str) -> list[Cause]:
    if faults := check_cidr(text):
        return with_faults(field, text, faults)
    outer = ipaddress.ip_network(cidr, strict=False)
    inner = ipaddress.ip_network(text, strict=False)
    first, last = inner.network_address, inner.broadcast_address
    if first in outer and last in outer and inner.prefixlen > outer.prefixlen:
        return []
    return [invalid(field, text, "must be a strict subset of `cidr`")]


def _validate_class(obj: Object) -> list[Cause]:
    controller = obj["spec"].get("controller") or ""
    if not controller:
        return [required("spec.controller")]
    causes: list[Cause] = []
    if "/" not in controller:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        causes.append(invalid("spec.controller", controller, detail))
    parameters = obj["spec"].get("parameters") or {}
    if parameters.get("scope") == "Namespace" and not parameters.get("namespace"):
        detail = "`parameters.scope` is set to 'Namespace'"
        causes.append(required("spec.parameters.namespace", detail))
    return causes


def _validate_class_update(obj: Object, old: Object) -> list[Cause]:
    return check_immutable(obj["spec"], old["spec"], ("controller",), "spec")


def _class_cells(obj: Object, now: datetime) -> list[Any]:
    parameters = obj["spec"].get("parameters")
    shown = NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    name = obj["metadata"].get("name", "")
    annotations = obj["metadata"].get("annotations") or {}
    if annotations.get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    return [name, obj["spec"].get("controller", ""), shown, format_age(obj, now)]


def _address_cells(obj: Object, now: datetime) -> list[Any]:
    parent = (obj.get("spec") or {}).get("parentRef")
    if parent is None:
        return [NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    parts = [f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace")]
    return ["/".join([part for part in parts if part] + [parent.get("name", "")])]


def _cidr_cells(obj: Object, now: datetime) -> list[Any]:
    return [",".join((obj.get("spec") or {}).get("cidrs") or ()), format_age(obj, now)]


RULES: Mapping[str, Rules] = {
    "Ingress": Rules(
        has_generation=True,
        validate=_validate_ingress,
        warnings=_warn_of_annotation,
        table=Table(
            (column("Class"), column("Hosts"), column("Address"), column("Ports"), AGE),
            _ingress_cells,
        ),
    ),
    "IngressClass": Rules(
        has_generation=True,
        validate=_validate_class,
        validate_update=_validate_class_update,
        table=Table(
            (NAME, column("Controller"), column("Parameters"), AGE),
            _class_cells,
            names_first=False,
        ),
    ),
    "IPAddress": Rules(table=Table((column("ParentRef"),), _address_cells)),
    "NetworkPolicy": Rules(
        has_generation=True,
        validate=_validate_policy,
        table=Table(
            (column("Pod-Selector"), AGE),
            lambda obj, now: [
                format_selector((obj.get("spec") or {}).get("podSelector") or {}),
                format_age(obj, now),
            ],
        ),
    ),
    "ServiceCIDR": Rules(
        status_resets=(("metadata",), ("spec",)), table=Table((column("CIDRs"), AGE), _cidr_cells)
    ),
}
