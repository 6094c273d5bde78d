"""Generate the data of the built-in kinds: schemas, their descriptions, and the resource table.

Sources are two development dependencies: kubernetes-validate (the OpenAPI definitions, converted to
JSON schema; this tool undoes the conversion) and lightkube-models (plurals, verbs, subresources).
Neither is needed at run time. The table that `tools/go_types.py` wrote tells which fields are never
absent: OpenAPI gives those a default. Run it with `python -m tools.builtin_schemas`.
"""

from __future__ import annotations

import gzip
import importlib.resources
import json
import lzma
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.builtin_resources import (
    CATEGORIES,
    GROUP_VERSIONS,
    SHORT_NAMES,
    SUBRESOURCE_KINDS,
    UNSUPPORTED_VERBS,
    VIRTUAL_SUBRESOURCES,
)

Schema = dict[str, Any]

RELEASE = "v1.37.0"
DATA = Path(__file__).parents[1] / "src/kubewright/local/apiserver/builtin/data"
_PREFIX = "#/components/schemas/"
_VERBS = {"post": "create", "put": "update", "global_list": "list", "global_watch": "watch"}
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0}
# The conversion lost the defaults. Those of list keys and of counts matter to clients.
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ReplicationControllerSpec", "replicas"): 1,
}


def load_definitions() -> dict[str, Schema]:
    """Read the definitions of the release from kubernetes-validate."""
    folder = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    text = (folder / f"{RELEASE}-local" / "_definitions.json").read_text()
    definitions: dict[str, Schema] = json.loads(text)["$defs"]
    return definitions


def undo_conversion(schema: Schema) -> Schema:
    """Turn a converted schema back into OpenAPI v3: one type, references to components."""
    result: Schema = {}
    for key, value in schema.items():
        if key == "type":
            result[key] = (
                next(t for t in value if t != "null") if isinstance(value, list) else value
            )
        elif key == "$ref":
            result[key] = _PREFIX + value.rpartition("/")[2]
        elif key == "properties":
            result[key] = {name: undo_conversion(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            result[key] = undo_conversion(value)
        elif key != "enum":
            result[key] = value
    return result


def build_definitions(source: dict[str, Schema], served: set[str]) -> dict[str, Schema]:
    """Build the OpenAPI definitions that the served group-versions reach."""
    result = {name: undo_conversion(source[name]) for name in sorted(served)}
    result[_INT_OR_STRING] = {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        **_described(source[_INT_OR_STRING]),
    }
    result[_QUANTITY] = {
        "oneOf": [{"type": "string"}, {"type": "number"}],
        **_described(source[_QUANTITY]),
    }
    types = json.loads(gzip.decompress((DATA / "types.json.gz").read_bytes()))
    for name in result.keys() & types.keys():
        add_zero_values(result[name].get("properties", {}), name, types)
    for (name, key), default in _DEFAULTS.items():
        result[name]["properties"][key]["default"] = default
    return result


def add_zero_values(properties: Schema, name: str, types: dict[str, list[list[Any]]]) -> None:
    """Give the fields that Go never leaves out their zero value as default, as upstream does."""
    for key, _, code, flags in types[name]:
        if not key:
            add_zero_values(properties, code[1:], types)
        elif "p" in flags or key not in properties:
            continue
        elif code.startswith("@"):
            reference = properties[key].pop("$ref")
            properties[key] |= {"allOf": [{"$ref": reference}], "default": {}}
        elif "o" not in flags and code.partition(" ")[0] in _ZEROS:
            properties[key]["default"] = _ZEROS[code.partition(" ")[0]]
    if name.endswith(".LocalObjectReference"):
        properties["name"]["default"] = ""


def _described(schema: Schema) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


def find_served(source: dict[str, Schema]) -> set[str]:
    """Find the definitions of the served kinds and all that they refer to."""
    served = {
        f"{group}/{version}".lstrip("/")
        for group, versions in GROUP_VERSIONS
        for version in versions
    }
    pending = [
        name
        for name, schema in source.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if f"{gvk['group']}/{gvk['version']}".lstrip("/") in served
    ]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += find_references(source[name])
    return found


def find_references(schema: Any) -> list[str]:
    """List the definitions that a schema refers to directly."""
    if isinstance(schema, list):
        return [name for item in schema for name in find_references(item)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("$ref")
    names = [own.rpartition("/")[2]] if isinstance(own, str) else []
    return names + [name for value in schema.values() for name in find_references(value)]


def split_descriptions(definitions: dict[str, Schema]) -> dict[str, dict[str, str]]:
    """Take the descriptions out of the definitions; return them by definition and property.

    The empty property stands for the definition itself. Nested inline schemas carry none.
    """
    descriptions: dict[str, dict[str, str]] = {}
    for name, schema in definitions.items():
        texts = {"": schema.pop("description", "")}
        for key, child in schema.get("properties", {}).items():
            texts[key] = child.pop("description", "")
        descriptions[name] = {key: text for key, text in texts.items() if text}
    return descriptions


def build_resources(definitions: dict[str, Schema]) -> list[Schema]:
    """Build the discovery facts of each served group-version, in the order of discovery."""
    by_version: dict[str, dict[str, Schema]] = {}
    for info in read_lightkube():
        definition = info.resource
        parent = info.parent or definition
        key = f"{parent.group}/{parent.version}".lstrip("/")
        entry = build_entry(info)
        by_version.setdefault(key, {})[entry["name"]] = entry
    result = []
    for group, versions in GROUP_VERSIONS:
        for version in versions:
            key = f"{group}/{version}".lstrip("/")
            entries = by_version.get(key, {}) | VIRTUAL_SUBRESOURCES.get(key, {})
            resources = [entries[name] for name in sorted(entries)]
            result.append({"group": group, "version": version, "resources": resources})
    return result


def read_lightkube() -> list[Any]:
    """Read the API info of each resource and subresource class of lightkube."""
    package = import_module("lightkube.resources")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        for value in vars(import_module(f"lightkube.resources.{module.name}")).values():
            info = getattr(value, "_api_info", None)
            if info is not None:
                # A class for namespaces and one for all of them share one resource.
                namespaced = "Namespaced" in "".join(base.__name__ for base in value.__mro__)
                found[(info.parent or info.resource, info.plural, info.action)] = info
                info.namespaced = namespaced
    return list(found.values())


def build_entry(info: Any) -> Schema:
    """Build one APIResource of discovery."""
    definition = info.resource
    parent = info.parent or definition
    name = f"{info.plural}/{info.action}" if info.action else info.plural
    verbs = {_VERBS.get(verb, verb) for verb in info.verbs} - UNSUPPORTED_VERBS.get(
        name, frozenset()
    )
    entry: Schema = {
        "name": name,
        "singularName": "" if info.action else definition.kind.lower(),
        "namespaced": info.namespaced,
        "kind": SUBRESOURCE_KINDS.get((parent.group, name), definition.kind),
        "verbs": sorted(verbs),
    }
    if info.action and (definition.group, definition.version) != (parent.group, parent.version):
        entry = {**entry, "group": definition.group, "version": definition.version}
    if not info.action:
        if short_names := SHORT_NAMES.get(name):
            entry["shortNames"] = list(short_names)
        for category, members in CATEGORIES.items():
            if name in members:
                entry["categories"] = [category]
    return entry


def write_data() -> None:
    """Write the data files; the same input gives the same bytes."""
    source = load_definitions()
    definitions = build_definitions(source, find_served(source))
    descriptions = split_descriptions(definitions)
    DATA.mkdir(parents=True, exist_ok=True)
    packed = json.dumps(definitions, separators=(",", ":")).encode()
    (DATA / "definitions.json.gz").write_bytes(gzip.compress(packed, mtime=0))
    texts = json.dumps(descriptions, separators=(",", ":"), ensure_ascii=False).encode()
    (DATA / "descriptions.json.xz").write_bytes(
        lzma.compress(texts, preset=9 | lzma.PRESET_EXTREME)
    )
    lines = json.dumps(build_resources(definitions), indent=1)
    (DATA / "resources.json").write_text(lines + "\n")
    for path in sorted(DATA.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    write_data()
