"""Rules of the discovery.k8s.io group."""

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
    check_qualified,
    with_faults,
)
from kubewright.local.apiserver.builtin.core_services import check_endpoint_address
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, UNSET, column, format_age
from kubewright.local.apiserver.field_error import duplicate, invalid, not_supported, required
from kubewright.local.apiserver.formats import check_label_value
from kubewright.local.apiserver.objectmeta import IMMUTABLE

_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MOST = 3


def _validate(obj: Object) -> list[Cause]:
    kind = obj.get("addressType") or ""
    ports = obj.get("ports") or []
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            causes += check_label(name, f"ports[{index}].name")
        if name in names:
            causes.append(duplicate(f"ports[{index}].name", name))
        names.add(name)
        causes += check_choice(port.get("protocol"), _PROTOCOLS, f"ports[{index}].protocol")
        if name := port.get("appProtocol"):
            causes += check_qualified(name, f"ports[{index}].appProtocol")
    if not kind:
        causes.append(required("addressType"))
    elif kind not in _TYPES:
        causes.append(not_supported("addressType", kind, _TYPES))
    # What was stored once is not judged again.
    is_new = not obj["metadata"].get("resourceVersion")
    for index, endpoint in enumerate((obj.get("endpoints") or ()) if is_new else ()):
        causes += _validate_endpoint(endpoint, kind, f"endpoints[{index}]")
    return causes


def _validate_endpoint(endpoint: Object, kind: str, field: str) -> list[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        return [required(f"{field}.addresses")]
    causes: list[Cause] = []
    for index, address in enumerate(addresses if kind in ("IPv4", "IPv6") else ()):
        causes += _check_family(address, kind, f"{field}.addresses")
        causes += check_endpoint_address(address, f"{field}.addresses[{index}]")
    if endpoint.get("hostname") is not None:
        causes += check_label(endpoint["hostname"], f"{field}.hostname")
    for index, zone in enumerate((endpoint.get("hints") or {}).get("forZones") or ()):
        place, name = f"{field}.hints.forZones[{index}].name", zone.get("name") or ""
        causes += with_faults(place, name, check_label_value(name))
    return causes


def _check_family(address: str, kind: str, field: str) -> list[Cause]:
    try:
        if f"IPv{ipaddress.ip_address(address).version}" == kind:
            return []
    except ValueError:
        pass
    return [invalid(field, address, f"must be an {kind} address")]


def _validate_update(obj: Object, old: Object) -> list[Cause]:
    if obj.get("addressType") != old.get("addressType"):
        return [invalid("addressType", None, IMMUTABLE)]
    return []


def _shorten(parts: list[str]) -> str:
    if not parts:
        return UNSET
    shown = ",".join(parts[:_MOST])
    return f"{shown} + {len(parts) - _MOST} more..." if len(parts) > _MOST else shown


def _port_text(port: Object) -> str:
    number, name = port.get("port"), port.get("name")
    if number is not None:
        return str(number)
    return "*" if name is None else str(name)


def _cells(obj: Object, now: datetime) -> list[Any]:
    ports = [_port_text(port) for port in obj.get("ports") or ()]
    endpoints = obj.get("endpoints") or ()
    addresses = [address for item in endpoints for address in item.get("addresses") or ()]
    kind = obj.get("addressType") or ""
    return [kind, _shorten(ports), _shorten(addresses), format_age(obj, now)]


RULES: Mapping[str, Rules] = {
    "EndpointSlice": Rules(
        has_generation=True,
        validate=_validate,
        validate_update=_validate_update,
        table=Table(
            (column("AddressType"), column("Ports"), column("Endpoints"), AGE),
            _cells,
        ),
    )
}
