"""The OpenAPI v3 schema that the server publishes for a version of a custom kind."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.crd.value_validation import Schema

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    "More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may "
    "infer this from the endpoint the client submits requests to. Cannot be updated. In "
    "CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    "#types-kinds"
)
_METADATA = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


def definition_name(gvk: GroupVersionKind) -> str:
    """Return the name in the published document: `com.example.cache.v1alpha1.Memcached`."""
    return ".".join([*reversed(gvk.group.split(".")), gvk.version, gvk.kind])


def build_published_schema(schema: Schema, gvk: GroupVersionKind) -> Object:
    """Build the schema of a kind as a client sees it: with type, metadata and its identity.

    Rules that only the server checks (`x-kubernetes-validations`) stay, as they do upstream.
    """
    published = _publish(deepcopy(dict(schema)))
    published["type"] = "object"
    published["properties"] = {**(published.get("properties") or {}), **_type_and_metadata()}
    published["x-kubernetes-group-version-kind"] = [
        {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    ]
    return published


def _type_and_metadata() -> Object:
    return {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
        "metadata": {
            "description": _METADATA,
            "$ref": f"#/components/schemas/{OBJECT_META}",
        },
    }


def _publish(node: dict[str, Any]) -> dict[str, Any]:
    """Spell out what the extensions imply, at a node and below it."""
    for name, child in (node.get("properties") or {}).items():
        node["properties"][name] = _publish(child)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _publish(node[key])
    if node.get("x-kubernetes-int-or-string"):
        node.pop("type", None)
        node.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if node.get("x-kubernetes-embedded-resource"):
        node["properties"] = {**(node.get("properties") or {}), **_type_and_metadata()}
        required = node.get("required") or []
        node["required"] = list(dict.fromkeys([*required, "apiVersion", "kind"]))
    return node
