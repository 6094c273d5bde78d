"""Rules of core/v1: configuration, namespaces, endpoints."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_immutable,
    check_label,
    with_faults,
)
from kubewright.local.apiserver.builtin.core_services import check_endpoint_address
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import (
    AGE,
    NONE,
    column,
    format_age,
)
from kubewright.local.apiserver.field_error import forbidden, invalid, required, too_long
from kubewright.local.apiserver.formats import check_config_key, check_ip, check_port_number
from kubewright.local.apiserver.objectmeta import dns_label, validate_qualified_finalizers

_MAX_DATA = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"
_HIDDEN = "<secret contents redacted>"
_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _default_data(obj: Object) -> None:
    """Turn `stringData` into data, as the conversion from v1 does; it is never stored."""
    for key, value in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _validate_config_map(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in sorted(data):
        causes += with_faults(f"data[{key}]", key, check_config_key(key))
        if key in binary:
            detail = "duplicate of key present in binaryData"
            causes.append(invalid(f"data[{key}]", key, detail))
    for key in sorted(binary):
        causes += with_faults(f"binaryData[{key}]", key, check_config_key(key))
    size = sum(len(value.encode()) for value in data.values())
    size += sum(_decoded_size(value) for value in binary.values())
    return causes + ([too_long("", _MAX_DATA)] if size > _MAX_DATA else [])


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value.count("=")


def _validate_frozen(obj: Object, old: Object, *keys: str) -> list[Cause]:
    if not old.get("immutable"):
        return []
    causes = [] if obj.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return causes + [
        forbidden(key, _IMMUTABLE) for key in keys if (obj.get(key) or {}) != (old.get(key) or {})
    ]


def _validate_config_map_update(obj: Object, old: Object) -> list[Cause]:
    return _validate_frozen(obj, old, "data", "binaryData")


def _validate_secret(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    data = obj.get("data") or {}
    for key in sorted(data):
        causes += with_faults(f"data[{key}]", key, check_config_key(key))
    if sum(_decoded_size(value) for value in data.values()) > _MAX_DATA:
        causes.append(too_long("data", _MAX_DATA))
    return causes + _validate_typed_secret(obj.get("type") or "", data, obj["metadata"])


def _validate_typed_secret(kind: str, data: Mapping[str, str], metadata: Object) -> list[Cause]:
    if kind == "kubernetes.io/service-account-token":
        if not (metadata.get("annotations") or {}).get(_SERVICE_ACCOUNT_NAME):
            return [required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]")]
    elif kind == "kubernetes.io/basic-auth":
        if not {"username", "password"} & data.keys():
            return [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    elif kind == "kubernetes.io/tls":
        return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    elif kind in _DOCKER_KEYS:
        return _validate_docker(_DOCKER_KEYS[kind], data)
    return []


_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def _validate_docker(key: str, data: Mapping[str, str]) -> list[Cause]:
    if key not in data:
        return [required(f"data[{key}]")]
    text = base64.b64decode(data[key]).decode(errors="replace")
    try:
        json.loads(text)
    except ValueError:
        from kubewright.local.apiserver.json_problem import find_problem

        return [invalid(f"data[{key}]", _HIDDEN, find_problem(text))]
    return []


def _validate_secret_update(obj: Object, old: Object) -> list[Cause]:
    return check_immutable(obj, old, ("type",), "") + _validate_frozen(obj, old, "data")


def _count_data(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _namespace_create(obj: Object) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj["spec"].get("finalizers") or []
    if "kubernetes" not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, "kubernetes"]
    labels = obj["metadata"].get("labels") or {}
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def _namespace_update(obj: Object, old: Object) -> None:
    obj["spec"]["finalizers"] = old["spec"].get("finalizers") or []
    if not obj["spec"]["finalizers"]:
        del obj["spec"]["finalizers"]


def _validate_namespace(obj: Object) -> list[Cause]:
    finalizers = obj["spec"].get("finalizers") or []
    causes = validate_qualified_finalizers(finalizers, "spec.finalizers")
    return [Cause(cause.reason, cause.message, "spec.finalizers") for cause in causes]


def _validate_namespace_status(obj: Object, old: Object) -> list[Cause]:
    phase, deleting = obj["status"].get("phase"), "deletionTimestamp" in obj["metadata"]
    if not deleting and phase != "Active":
        detail = "may only be 'Active' if `deletionTimestamp` is empty"
        return [invalid("status.Phase", phase, detail)]
    if deleting and phase != "Terminating":
        detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid("status.Phase", phase, detail)]
    return []


def _endpoints_cells(obj: Object, now: datetime) -> list[Any]:
    pairs = [
        f"{_bracketed(address.get('ip', ''))}:{port.get('port', 0)}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return [shorten(pairs), format_age(obj, now)]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def shorten(pairs: list[str], most: int = 3) -> str:
    """Join the first few texts; say how many more there are."""
    if len(pairs) > most:
        return f"{','.join(pairs[:most])} + {len(pairs) - most} more..."
    return ",".join(pairs) or NONE


def _component_cells(obj: Object, now: datetime) -> list[Any]:
    found: list[Object] = [c for c in obj.get("conditions") or () if c.get("type") == "Healthy"]
    healthy = found[0] if found else {}
    status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [status, healthy.get("message", ""), healthy.get("error", "")]


def _validate_endpoints(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        field = f"subsets[{index}]"
        addresses = [
            (key, position, item)
            for key in ("addresses", "notReadyAddresses")
            for position, item in enumerate(subset.get(key) or ())
        ]
        if not addresses:
            causes.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
        for key, position, item in addresses:
            causes += _check_address(item.get("ip") or "", f"{field}.{key}[{position}].ip")
        ports = subset.get("ports") or []
        for position, port in enumerate(ports):
            causes += _check_endpoint_port(port, len(ports) > 1, f"{field}.ports[{position}]")
    return causes


def _check_address(address: str, field: str) -> list[Cause]:
    causes = check_endpoint_address(address, field)
    if check_ip(address):
        # Two checks of the real server complain of the same.
        causes.append(invalid(field, address, "must be a valid IP address"))
    return causes


def _check_endpoint_port(port: Object, needs_name: bool, field: str) -> list[Cause]:
    causes: list[Cause] = []
    name, number = port.get("name") or "", port.get("port") or 0
    if needs_name and not name:
        causes.append(required(f"{field}.name"))
    elif name:
        causes += check_label(name, f"{field}.name")
    causes += with_faults(f"{field}.port", number, check_port_number(number))
    return causes + check_choice(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{field}.protocol")


RULES: Mapping[str, Rules] = {
    "ComponentStatus": Rules(
        table=Table((column("Status"), column("Message"), column("Error")), _component_cells)
    ),
    "ConfigMap": Rules(
        validate=_validate_config_map,
        validate_update=_validate_config_map_update,
        table=Table(
            (column("Data"), AGE), lambda obj, now: [_count_data(obj), format_age(obj, now)]
        ),
    ),
    "Secret": Rules(
        default=_default_data,
        validate=_validate_secret,
        validate_update=_validate_secret_update,
        fields={"type": text_at("type")},
        table=Table(
            (column("Type"), column("Data"), AGE),
            lambda obj, now: [obj.get("type", ""), _count_data(obj), format_age(obj, now)],
        ),
    ),
    "Namespace": Rules(
        name_rule=dns_label,
        prepare_for_create=_namespace_create,
        prepare_for_update=_namespace_update,
        validate=_validate_namespace,
        validate_status_update=_validate_namespace_status,
        fields={"status.phase": text_at("status", "phase"), "name": text_at("metadata", "name")},
        table=Table(
            (column("Status"), AGE),
            lambda obj, now: [obj["status"].get("phase", ""), format_age(obj, now)],
        ),
    ),
    "ServiceAccount": Rules(),
    "Endpoints": Rules(
        allow_create_on_update=True,
        validate=_validate_endpoints,
        table=Table((column("Endpoints"), AGE), _endpoints_cells),
    ),
}
