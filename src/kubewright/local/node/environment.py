"""The environment of a container, and the expansion of `$(NAME)`. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING
from typing import Any

from kubewright.api.errors import KubewrightError
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.env_file import EnvFileError, read_variable

References = Mapping[tuple[str, str], Object | None]
"""ConfigMaps and Secrets that a pod names, by (kind, name); None for one that is not there."""


class ConfigError(KubewrightError):
    """A container's configuration cannot be built: CreateContainerConfigError."""


REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
"""A reference to a variable, or an escaped `$`."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; `$$` is a `$`, an unknown name stays as it is."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return REFERENCE.sub(replace, text)


def build_environment(
    pod: Object,
    container: Object,
    references: References,
    *,
    services: Iterable[Object] = (),
    node: Object | None = None,
    read_file: ReadFile = lambda volume, path: None,
) -> dict[str, str]:
    """Build the variables of a container, without those of its image.

    What comes later goes before: Services, then `envFrom` in its order, then `env`. `node` gives
    the allocatable amounts that stand for limits that are not set; `read_file` reads the files of
    the pod's volumes.

    Raises:
        ConfigError: a ConfigMap, a Secret or a key is missing; worded as the kubelet words it.
    """
    variables = build_service_variables(pod, services)
    for source in container.get("envFrom") or ():
        variables.update(_read_source(pod, source, references))
    for entry in container.get("env") or ():
        value: str | None
        source = entry.get("valueFrom") or {}
        if reference := source.get("fileKeyRef"):
            value = _read_file(reference, read_file)
        elif source:
            value = _read_value(pod, container, source, references, node)
        else:
            value = expand(entry.get("value") or "", variables)
        if value is not None:
            variables[entry["name"]] = value
    return variables


def build_service_variables(pod: Object, services: Iterable[Object]) -> dict[str, str]:
    """Build the variables that tell of the Services of the pod's namespace, and of `kubernetes`."""
    namespace = pod["metadata"].get("namespace") or "default"
    links = (pod.get("spec") or {}).get("enableServiceLinks", True) is not False
    variables: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service.get("spec") or {}
        is_master = (metadata.get("namespace"), metadata["name"]) == ("default", "kubernetes")
        wanted = is_master or (links and metadata.get("namespace") == namespace)
        address, ports = spec.get("clusterIP") or "None", spec.get("ports") or ()
        if wanted and address != "None" and ports:
            variables.update(_service_variables(metadata["name"], address, ports))
    return variables


def _service_variables(name: str, address: str, ports: Any) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    variables = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
    }
    for index, port in enumerate(ports):
        number, protocol = port["port"], (port.get("protocol") or "TCP").lower()
        url = f"{protocol}://{address}:{number}"
        if port.get("name"):
            label = port["name"].upper().replace("-", "_")
            variables[f"{prefix}_SERVICE_PORT_{label}"] = str(number)
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        stem = f"{prefix}_PORT_{number}_{protocol.upper()}"
        variables |= {
            stem: url,
            f"{stem}_PROTO": protocol,
            f"{stem}_PORT": str(number),
            f"{stem}_ADDR": address,
        }
    return variables


def read_data(kind: str, obj: Object) -> dict[str, bytes]:
    """Return the keys of a ConfigMap or Secret as bytes, as a volume has them."""
    data = obj.get("data") or {}
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary = {k: base64.b64decode(v) for k, v in (obj.get("binaryData") or {}).items()}
    return {key: value.encode() for key, value in data.items()} | binary


def read_texts(kind: str, obj: Object) -> dict[str, str]:
    """Return the keys of a ConfigMap or Secret that can be variables: no binaryData."""
    data: dict[str, str] = obj.get("data") or {}
    if kind == "ConfigMap":
        return data
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}


def _read_source(pod: Object, source: Object, references: References) -> dict[str, str]:
    kind = "Secret" if "secretRef" in source else "ConfigMap"
    reference = source.get("secretRef") or source.get("configMapRef") or {}
    obj = references.get((kind, reference["name"]))
    if obj is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    prefix = source.get("prefix") or ""
    return {prefix + key: value for key, value in read_texts(kind, obj).items()}


def _read_value(
    pod: Object, container: Object, source: Object, references: References, node: Object | None
) -> str | None:
    if field := source.get("fieldRef"):
        return read_field(pod, field["fieldPath"])
    if resource := source.get("resourceFieldRef"):
        return read_resource(pod, container, resource, node)
    kind = "Secret" if "secretKeyRef" in source else "ConfigMap"
    reference = source.get("secretKeyRef") or source.get("configMapKeyRef")
    if reference is None:
        raise ConfigError(f"local nodes do not know the variable source {', '.join(source)}")
    name, key = reference["name"], reference["key"]
    obj = references.get((kind, name))
    if obj is None:
        if reference.get("optional"):
            return None
        raise ConfigError(f'{kind.lower()} "{name}" not found')
    data = read_texts(kind, obj)
    if key not in data:
        if reference.get("optional"):
            return None
        namespace = pod["metadata"].get("namespace")
        raise ConfigError(f"couldn't find key {key} in {kind} {namespace}/{name}")
    return data[key]


ReadFile = Callable[[str, str], str | None]
"""Reads a file of a volume, by the volume's name and the path; None if it is not there."""


def _read_file(reference: Object, read: ReadFile) -> str | None:
    """Read a variable from an environment file in a volume (KEP-3721)."""
    text = read(reference["volumeName"], reference["path"])
    optional, key = bool(reference.get("optional")), reference["key"]
    try:
        value = "" if text is None and optional else read_variable(text or "", key)
    except EnvFileError as error:
        raise ConfigError("couldn't parse env file") from error
    if text is None and not optional:
        raise ConfigError("couldn't parse env file")
    if not value and not optional:
        path = reference["path"]
        raise ConfigError(f'environment variable key "{key}" not found in file "{path}"')
    return value or None


_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


def read_field(pod: Object, path: str) -> str:
    """Read a field of a pod that the downward API gives out.

    Raises:
        ConfigError: it does not give out this one.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        return format_map(metadata.get(path.partition(".")[2]) or {})
    simple = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.hostIP": status.get("hostIP"),
        "status.hostIPs": ",".join(entry["ip"] for entry in status.get("hostIPs") or ()),
        "status.podIP": status.get("podIP"),
        "status.podIPs": ",".join(entry["ip"] for entry in status.get("podIPs") or ()),
    }
    if path not in simple:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return simple[path] or ""


def format_map(entries: Mapping[str, str]) -> str:
    """Write labels or annotations as lines `key="value"`, quoted as Go quotes."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
    return "\n".join(f'{key}="{entries[key].translate(escapes)}"' for key in sorted(entries))


def read_resource(pod: Object, container: Object, source: Object, node: Object | None) -> str:
    """Read a request or limit of a container, in units of the divisor, rounded up."""
    if name := source.get("containerName"):
        spec = pod.get("spec") or {}
        both = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        named = [each for each in both if each["name"] == name]
        if not named:
            raise ConfigError(f"container {name} not found")
        container = named[0]
    group, _, resource = source["resource"].partition(".")
    amounts = (container.get("resources") or {}).get(group) or {}
    allocatable = ((node or {}).get("status") or {}).get("allocatable") or {}
    fallback = allocatable.get(resource, "0") if group == "limits" else "0"
    amount = Quantity(amounts.get(resource) or fallback)
    divisor = Quantity(source.get("divisor") or "1")
    unit = divisor.value or Quantity("1").value
    return str(int((amount.value / unit).to_integral_value(ROUND_CEILING)))


def list_references(pod: Object) -> set[tuple[str, str]]:
    """List the ConfigMaps and Secrets that a pod's containers and volumes name."""
    spec = pod.get("spec") or {}
    found: set[tuple[str, str]] = set()
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for source in container.get("envFrom") or ():
            found |= _named(source, "configMapRef", "secretRef")
        for entry in container.get("env") or ():
            found |= _named(entry.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            found |= _named(source, "configMap", "secret")
    return found


def _named(source: Object, config_map: str, secret: str) -> set[tuple[str, str]]:
    found = set()
    if reference := source.get(config_map):
        found.add(("ConfigMap", reference["name"]))
    if reference := source.get(secret):
        found.add(("Secret", reference.get("name") or reference.get("secretName") or ""))
    return found
