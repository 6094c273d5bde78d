"""Generate the table of Go types behind the built-in kinds: how JSON and protobuf spell each field.

OpenAPI does not say which fields are pointers, which are left out when empty, or what numbers they
have in protobuf; the tags of the Go structs do. The tool reads the structs of the API modules from
the Go module cache (`go mod download k8s.io/api@VERSION` and the like fills it):

    python -m tools.go_types "$(go env GOMODCACHE)" v0.37.2
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.builtin_resources import GROUP_VERSIONS

TARGET = Path(__file__).parents[1] / "src/kubewright/local/apiserver/builtin/data" / "types.json.gz"
_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_FOLDERS = {
    "": "k8s.io/api/core/{}",
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/{}",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apis/apiregistration/{}",
}
# Types with an encoding of their own, and their codes (see builtin/shapes.py).
_EXTENSIONS = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
_LEAVES = {
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intorstring",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "raw",
    f"{_META}.Time": "time",
    f"{_META}.MicroTime": "microtime",
    f"{_META}.Duration": "duration",
    f"{_META}.FieldsV1": "fields",
    f"{_EXTENSIONS}.JSON": "json",
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": "schemas",
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": "schemaorbool",
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": "schemaorstrings",
    "k8s.io/apimachinery/pkg/types.UID": "string types.UID",
    "k8s.io/apimachinery/pkg/types.NodeName": "string types.NodeName",
}
_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "uint32": "int64",
    "float64": "double",
    "rune": "int32",
    "byte": "byte",
}
_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\n(.*?)^)?\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?:= )?((?:\[\]|map\[|\*)?[\w.\[\]*]+)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:\w+\s+)?([\w.*\[\]]+)\s+`([^`]*)`", re.MULTILINE)
_IMPORT = re.compile(r'^(?:\t|import )(?:(\w+) )?"([^"\n]+)"$', re.MULTILINE)


@dataclass
class Package:
    """The declarations of one Go package, still as text."""

    path: str
    imports: dict[str, str] = field(default_factory=dict)
    structs: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)

    @property
    def alias(self) -> str:
        """The name by which Go prints the package's types."""
        return self.path.rpartition("/")[2]


class Types:
    """Reads packages on demand and describes their types."""

    def __init__(self, cache: Path, version: str) -> None:
        self._cache = cache
        self._version = version
        self._packages: dict[str, Package] = {}
        self.structs: dict[str, list[list[object]]] = {}

    def package(self, path: str) -> Package:
        """Read one package."""
        if path not in self._packages:
            self._packages[path] = self._read(path)
        return self._packages[path]

    def _read(self, path: str) -> Package:
        module = "/".join(path.split("/")[:2])
        folder = self._cache / f"{module}@{self._version}" / path.removeprefix(module).lstrip("/")
        result = Package(path)
        for file in sorted(folder.glob("*.go")):
            if file.name.endswith("_test.go") or "generated" in file.name:
                continue
            text = re.sub(r"^\s*//.*\n", "", file.read_text(), flags=re.MULTILINE)
            for alias, target in _IMPORT.findall(text):
                result.imports[alias or target.rpartition("/")[2]] = target
            result.structs |= dict(_STRUCT.findall(text))
            result.named |= dict(_NAMED.findall(re.sub(_STRUCT, "", text)))
        return result

    def describe(self, expression: str, package: Package) -> tuple[str, bool]:
        """Return the code of a type expression, and whether it is a pointer."""
        if expression.startswith("*"):
            return self.describe(expression[1:], package)[0], True
        if expression == "[]byte":
            return "bytes", False
        if expression.startswith("[]"):
            return "list " + self.describe(expression[2:], package)[0], False
        if expression.startswith("map["):
            return "map " + self.describe(expression.partition("]")[2], package)[0], False
        if expression in _SCALARS:
            return _SCALARS[expression], False
        prefix, _, name = expression.rpartition(".")
        home = self.package(package.imports[prefix]) if prefix else package
        return self._describe_named(name, home)

    def _describe_named(self, name: str, home: Package) -> tuple[str, bool]:
        full = f"{home.path}.{name}"
        if full in _LEAVES:
            for other in ("JSONSchemaProps",) if "JSONSchemaPropsOr" in name else ():
                self._describe_named(other, home)
            return _LEAVES[full], False
        if name in home.structs:
            self._add_struct(name, home)
            return "@" + definition(home.path, name), False
        code, pointer = self.describe(home.named[name], home)
        if code.startswith("list ") and "ExtraValue" in name:
            # In protobuf a named list inside a map is a message of its own.
            return "wrapped " + code, pointer
        kind = code.partition(" ")[0]
        return (f"{kind} {home.alias}.{name}" if kind in _SCALARS.values() else code), pointer

    def _add_struct(self, name: str, home: Package) -> None:
        full = definition(home.path, name)
        if full in self.structs:
            return
        fields: list[list[object]] = []
        self.structs[full] = fields
        for expression, tags in _FIELD.findall(home.structs[name]):
            found = dict(re.findall(r'(\w+):"([^"]*)"', tags))
            json_name, *options = found.get("json", "-").split(",")
            if expression.endswith("TypeMeta"):
                fields += [["kind", 0, "string", "o"], ["apiVersion", 0, "string", "o"]]
                continue
            if json_name == "-":
                continue
            number = found.get("protobuf", ",0").split(",")[1]
            code, pointer = self.describe(expression, home)
            flags = ("p" if pointer else "") + ("o" if "omitempty" in options else "")
            flags += "z" if "omitzero" in options else ""
            # A field without a JSON name is inlined in JSON and a message of its own in protobuf.
            fields.append([json_name, int(number), code, flags])


def definition(path: str, name: str) -> str:
    """Return the name of a Go type's OpenAPI definition."""
    host, _, rest = path.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/"), name])


def build_types(cache: Path, version: str) -> dict[str, list[list[object]]]:
    """Describe the structs of all served kinds, and those they hold."""
    types = Types(cache, version)
    for group, versions in GROUP_VERSIONS:
        folder = _FOLDERS.get(group, f"k8s.io/api/{group.partition('.')[0]}/{{}}")
        for served in versions:
            package = types.package(folder.format(served))
            for name, body in package.structs.items():
                if "TypeMeta" in body:
                    types.describe(name, package)
    meta = types.package(_META)
    for name in ("DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "Status"):
        types.describe(name, meta)
    return types.structs


def main() -> None:
    """Write the data file; the same input gives the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("cache", type=Path, help="the Go module cache")
    parser.add_argument("version", help="the version of the k8s.io modules, such as v0.37.2")
    arguments = parser.parse_args()
    types = build_types(arguments.cache, arguments.version)
    packed = json.dumps(dict(sorted(types.items())), separators=(",", ":")).encode()
    TARGET.write_bytes(gzip.compress(packed, mtime=0))
    print(f"{TARGET.name}: {len(types)} types, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
