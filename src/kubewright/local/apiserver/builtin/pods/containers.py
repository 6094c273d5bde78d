"""Validation of containers: names, images, ports, environment, mounts."""

from __future__ import annotations

import msgspec

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_label,
    check_present,
    with_faults,
)
from kubewright.local.apiserver.builtin.pods.probes import validate_lifecycle, validate_probes
from kubewright.local.apiserver.builtin.pods.references import (
    ENVIRONMENT_FIELDS,
    validate_field_reference,
    validate_resource_reference,
)
from kubewright.local.apiserver.builtin.pods.resources import (
    validate_resize_policy,
    validate_resources,
)
from kubewright.local.apiserver.builtin.pods.security import validate_security_context
from kubewright.local.apiserver.builtin.pods.volumes import check_descending
from kubewright.local.apiserver.field_error import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from kubewright.local.apiserver.formats import (
    check_config_key,
    check_dns_subdomain,
    check_env_name,
    check_port_name,
    check_port_number,
)

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_NOT_FOR_EPHEMERAL = "cannot be set for an Ephemeral Container"
_EPHEMERAL_FORBIDDEN = (
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
)
_VALUE_SOURCES = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`"
    " or `fileKeyRef`"
)


class PodParts(msgspec.Struct, frozen=True):
    """What the containers of a pod refer to."""

    volumes: dict[str, Object]
    claims: set[str] = set()
    grace: int | None = None
    shares_users: bool = True


def validate_containers(containers: list[Object], parts: PodParts, field: str) -> list[Cause]:
    """Return what is wrong with the main containers of a pod."""
    if not containers:
        return [required(field)]
    causes: list[Cause] = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        place, name = f"{field}[{index}]", container.get("name") or ""
        causes += _validate_container(container, parts, place)
        if name in names:
            causes.append(duplicate(f"{place}.name", name))
        names.add(name)
        if "lifecycle" in container:
            causes += validate_lifecycle(container["lifecycle"], parts.grace, f"{place}.lifecycle")
        causes += validate_probes(container, parts.grace, place)
    return causes + check_host_ports(containers, field)


def validate_init_containers(
    containers: list[Object], main: list[Object], parts: PodParts, field: str
) -> list[Cause]:
    """Return what is wrong with the init containers of a pod, sidecars included."""
    causes: list[Cause] = []
    names = {container.get("name") for container in main}
    for index, container in enumerate(containers):
        place, name = f"{field}[{index}]", container.get("name") or ""
        causes += _validate_container(container, parts, place)
        if name in names:
            causes.append(duplicate(f"{place}.name", name))
        elif name:
            names.add(name)
        causes += check_host_ports([container], field)
        if container.get("restartPolicy") == "Always":
            if "lifecycle" in container:
                hooks = container["lifecycle"]
                causes += validate_lifecycle(hooks, parts.grace, f"{place}.lifecycle")
            causes += validate_probes(container, parts.grace, place)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if key in container:
                causes.append(forbidden(f"{place}.{key}", _NOT_FOR_INIT))
    return causes


def validate_ephemeral_containers(
    containers: list[Object], others: list[Object], parts: PodParts, field: str
) -> list[Cause]:
    """Return what is wrong with the ephemeral containers of a pod."""
    causes: list[Cause] = []
    names = {container.get("name") for container in others}
    targets = set(names)
    for index, container in enumerate(containers):
        place, name = f"{field}[{index}]", container.get("name") or ""
        causes += _validate_container(container, parts, place)
        if name in names:
            causes.append(duplicate(f"{place}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in targets:
            causes.append(not_found(f"{place}.targetContainerName", target))
        causes += [
            forbidden(f"{place}.{key}", _NOT_FOR_EPHEMERAL)
            for key in _EPHEMERAL_FORBIDDEN
            if container.get(key)
        ]
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            causes += [
                forbidden(f"{place}.volumeMounts[{position}].{key}", _NOT_FOR_EPHEMERAL)
                for key in ("subPath", "subPathExpr")
                if mount.get(key)
            ]
    return causes


def _validate_container(container: Object, parts: PodParts, field: str) -> list[Cause]:
    name = container.get("name") or ""
    causes = check_label(name, f"{field}.name") if name else [required(f"{field}.name")]
    causes += check_present(container, "image", field)
    policy = container.get("terminationMessagePolicy")
    causes += check_choice(policy, _MESSAGE_POLICIES, f"{field}.terminationMessagePolicy")
    causes += _validate_ports(container.get("ports") or [], f"{field}.ports")
    causes += _validate_environment(container.get("env") or [], f"{field}.env")
    causes += _validate_env_from(container.get("envFrom") or [], f"{field}.envFrom")
    causes += _validate_mounts(container, parts, f"{field}.volumeMounts")
    causes += _validate_devices(container, parts, f"{field}.volumeDevices")
    pull = container.get("imagePullPolicy")
    causes += check_choice(pull, _PULL_POLICIES, f"{field}.imagePullPolicy")
    resources = container.get("resources") or {}
    causes += validate_resources(resources, parts.claims, f"{field}.resources")
    causes += validate_resize_policy(container.get("resizePolicy") or [], f"{field}.resizePolicy")
    security = container.get("securityContext") or {}
    place = f"{field}.securityContext"
    return causes + validate_security_context(security, place, shares_users=parts.shares_users)


def _validate_ports(ports: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{field}[{index}]"
        if name := port.get("name"):
            faults = check_port_name(name)
            causes += with_faults(f"{place}.name", name, faults)
            if not faults and name in names:
                causes.append(duplicate(f"{place}.name", name))
            names.add(name)
        number, host = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            causes.append(required(f"{place}.containerPort"))
        else:
            causes += with_faults(f"{place}.containerPort", number, check_port_number(number))
        if host:
            causes += with_faults(f"{place}.hostPort", host, check_port_number(host))
        causes += check_choice(port.get("protocol"), PROTOCOLS, f"{place}.protocol")
    return causes


def check_host_ports(containers: list[Object], field: str) -> list[Cause]:
    """Refuse a host port that is taken twice."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                causes.append(duplicate(f"{field}[{index}].ports[{position}].hostPort", key))
            seen.add(key)
    return causes


def _validate_environment(variables: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(variables):
        place, name = f"{field}[{index}].name", variable.get("name") or ""
        causes += with_faults(place, name, check_env_name(name)) if name else [required(place)]
        if "valueFrom" in variable:
            causes += _validate_value_from(variable, f"{field}[{index}].valueFrom")
    return causes


def _validate_value_from(variable: Object, field: str) -> list[Cause]:
    source, causes = variable["valueFrom"], []
    if "fieldRef" in source:
        place = f"{field}.fieldRef"
        causes += validate_field_reference(source["fieldRef"], ENVIRONMENT_FIELDS, place)
    if "resourceFieldRef" in source:
        place = f"{field}.resourceFieldRef"
        causes += validate_resource_reference(source["resourceFieldRef"], place)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in source:
            causes += _validate_key_reference(source[key], f"{field}.{key}")
    if not source:
        causes.append(invalid(field, "", _VALUE_SOURCES))
    elif variable.get("value"):
        causes.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        detail = "may not have more than one field specified at a time"
        causes.append(invalid(field, "", detail))
    return causes


def _validate_key_reference(reference: Object, field: str) -> list[Cause]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    causes = with_faults(f"{field}.name", name, check_dns_subdomain(name)) if name else []
    if not key:
        return [*causes, required(f"{field}.key")]
    return causes + with_faults(f"{field}.key", key, check_config_key(key))


def _validate_env_from(sources: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, source in enumerate(sources):
        place = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            causes += with_faults(f"{place}.prefix", prefix, check_env_name(prefix))
        found = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in found:
            name = source[key].get("name") or ""
            where = f"{place}.{key}.name"
            if not name:
                causes.append(required(where))
            else:
                causes += with_faults(where, name, check_dns_subdomain(name))
        if not found:
            causes.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            detail = "may not have more than one field specified at a time"
            causes.append(invalid(field, "", detail))
    return causes


def _validate_mounts(container: Object, parts: PodParts, field: str) -> list[Cause]:
    causes: list[Cause] = []
    paths: set[str] = set()
    devices = {item.get("name"): item for item in container.get("volumeDevices") or ()}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place, name = f"{field}[{index}]", mount.get("name") or ""
        path = mount.get("mountPath") or ""
        if not name:
            causes.append(required(f"{place}.name"))
        if name not in parts.volumes:
            causes.append(not_found(f"{place}.name", name))
        if not path:
            causes.append(required(f"{place}.mountPath"))
        if path in paths:
            causes.append(invalid(f"{place}.mountPath", path, "must be unique"))
        paths.add(path)
        if name in devices:
            detail = "must not already exist in volumeDevices"
            causes.append(invalid(f"{place}.name", name, detail))
        causes += _validate_sub_paths(mount, field, place)
    return causes


def _validate_sub_paths(mount: Object, field: str, place: str) -> list[Cause]:
    causes: list[Cause] = []
    path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if path:
        causes += check_descending(path, f"{field}.subPath")
    if expression:
        if path:
            detail = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{place}.subPathExpr", expression, detail))
        causes += check_descending(expression, f"{field}.subPathExpr")
    return causes


def _validate_devices(container: Object, parts: PodParts, field: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        place, name = f"{field}[{index}]", device.get("name") or ""
        causes += check_present(device, "name", place) + check_present(device, "devicePath", place)
        if name in seen:
            causes.append(invalid(f"{place}.name", name, "must be unique"))
        seen.add(name)
        if name not in parts.volumes:
            causes.append(not_found(f"{place}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & parts.volumes[name].keys():
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block"
                " mode"
            )
            causes.append(invalid(f"{place}.name", name, detail))
    return causes
