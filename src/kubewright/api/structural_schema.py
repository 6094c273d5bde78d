"""From a pydantic model to a structural schema, as CustomResourceDefinitions demand it.

A structural schema says the type of every field in one place, has no references, and keeps logic
(`oneOf`, `anyOf`) to pure value checks. Pydantic's JSON Schema breaks these rules in 38 ways; this
module rewrites what has an equal form and refuses the rest, naming the field. Source: Kubernetes
documentation, "Specifying a structural schema"; KEP 20190425-structural-openapi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import SchemaError
from kubewright.api.resource import Object

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

# Words with a meaning that a structural schema cannot carry.
_REFUSED = frozenset(
    {"patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "contains"}
    | {"if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "not"}
)
_VALIDATIONS = (
    *("minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems"),
    *("maxItems", "minProperties", "maxProperties", "required", "enum", "description"),
    *("default", "nullable"),
)
# The formats that the API server checks. ISO durations are not among them: its `duration` is Go's.
_FORMATS = frozenset(
    {"uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"}
    | {"byte", "password", "date", "date-time", "int32", "int64", "float", "double"}
)
# The API server's patterns are RE2: no look-around, no references back, no possessive repeats.
_BEYOND_RE2 = re.compile(r"\(\?[=!]|\(\?<[=!]|\(\?P?[=>]|\\[1-9]|\(\?\(|[*+?}]\+")


def build_structural_schema(json_schema: Mapping[str, Any], path: str) -> Object:
    """Rewrite a JSON schema so that it is structural.

    Args:
        json_schema: what pydantic's `model_json_schema` gives, with its `$defs`.
        path: where the schema stands in the object, such as `spec`; errors begin with it.

    Raises:
        SchemaError: a part has no structural form; the message names the field and a way out.
    """
    return _Rewriter(json_schema.get("$defs", {})).rewrite(json_schema, path, ())


class _Rewriter:
    """One pass over a schema; `definitions` are the targets of its references."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def rewrite(self, schema: Any, path: str, within: tuple[str, ...]) -> Object:
        """Rewrite one node; `within` holds the definitions being inlined, outermost first."""
        if schema is True:
            return {PRESERVE: True}
        schema = self._merge_all_of(schema)
        if (reference := schema.get("$ref")) is not None:
            return self._inline(reference, schema, path, within)
        for word in _REFUSED & schema.keys():
            raise SchemaError(_refusal(word, path))
        if (branches := schema.get("anyOf") or schema.get("oneOf")) is not None:
            return self._rewrite_union(schema, branches, path, within)
        return self._rewrite_plain(schema, path, within)

    def _inline(
        self, reference: str, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> Object:
        name = reference.rpartition("/")[2]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if name in within:
            # A structural schema is finite: the inner turn of a recursive type stays open.
            return _with_validations({"type": "object", PRESERVE: True}, beside)
        target = self.rewrite(self._definitions[name], path, (*within, name))
        return _with_validations(target, beside)

    @staticmethod
    def _merge_all_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(parts := schema.get("allOf", ())) != 1:
            return schema
        return {**parts[0], **{key: value for key, value in schema.items() if key != "allOf"}}

    def _rewrite_union(
        self,
        schema: Mapping[str, Any],
        branches: list[Mapping[str, Any]],
        path: str,
        within: tuple[str, ...],
    ) -> Object:
        some = [branch for branch in branches if branch.get("type") != "null"]
        nullable = len(some) < len(branches)
        beside = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
        if len(some) == 1:
            result = _with_validations(self.rewrite(some[0], path, within), beside)
        else:
            nodes = [self.rewrite(branch, path, within) for branch in some]
            result = _with_validations(_build_union(nodes, path), beside)
        if nullable:
            result["nullable"] = True
        return result

    def _rewrite_plain(
        self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> Object:
        result: Object = {}
        kind = schema.get("type")
        if kind is None and "enum" not in schema and "const" not in schema:
            result[PRESERVE] = True
        else:
            result["type"] = kind or _type_of_values(_values(schema), path)
        _copy_validations(schema, result, path)
        if result.get("type") == "object":
            self._rewrite_object(schema, result, path, within)
        elif result.get("type") == "array":
            self._rewrite_array(schema, result, path, within)
        elif result.get("type") == "null":
            raise SchemaError(f"{path}: a field that can only be None has no structural schema")
        result |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        return result

    def _rewrite_object(
        self, schema: Mapping[str, Any], result: Object, path: str, within: tuple[str, ...]
    ) -> None:
        if properties := schema.get("properties"):
            result["properties"] = {
                name: self.rewrite(value, f"{path}.{name}", within)
                for name, value in properties.items()
            }
        extra = schema.get("additionalProperties")
        if properties and isinstance(extra, dict) and extra:
            raise SchemaError(
                f"{path}: declared fields beside typed extra fields have no structural schema: "
                "put the extra fields into a dict of their own"
            )
        if isinstance(extra, dict) and extra:
            result["additionalProperties"] = self.rewrite(extra, f"{path}.*", within)
        elif extra is True or extra == {} or (extra is None and "properties" not in schema):
            result[PRESERVE] = True  # a model without fields is closed: it has empty properties

    def _rewrite_array(
        self, schema: Mapping[str, Any], result: Object, path: str, within: tuple[str, ...]
    ) -> None:
        items = schema.get("items")
        if prefix := schema.get("prefixItems"):
            if any(item != prefix[0] for item in prefix[1:]):
                raise SchemaError(
                    f"{path}: a tuple of different types has no structural schema: use a model"
                )
            items = prefix[0]
        result["items"] = self.rewrite(True if items is None else items, f"{path}[]", within)
        if schema.get("uniqueItems"):
            if result["items"].get("type") in ("object", "array"):
                raise SchemaError(f"{path}: a set of objects has no structural schema: use a list")
            result["x-kubernetes-list-type"] = "set"


def _values(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _copy_validations(schema: Mapping[str, Any], result: Object, path: str) -> None:
    for word in _VALIDATIONS:
        if word in schema and not (word == "default" and schema[word] is None):
            result[word] = schema[word]
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if schema.get("format") in _FORMATS:
        result["format"] = schema["format"]
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in schema:  # OpenAPI 3.0 has a flag beside the bound where JSON Schema has a number
            result[bound], result[word] = schema[word], True
    if (pattern := schema.get("pattern")) and _BEYOND_RE2.search(pattern):
        raise SchemaError(
            f"{path}: the pattern {pattern!r} needs look-around or references, which the API "
            "server's RE2 lacks: rewrite it, or check it in a validate function"
        )


def _with_validations(node: Object, beside: Mapping[str, Any]) -> Object:
    """Return the node with what stands beside a reference or a union, which is more specific."""
    own: Object = {}
    _copy_validations(beside, own, "")
    own |= {key: value for key, value in beside.items() if key.startswith("x-kubernetes-")}
    return {**node, **own}


def _type_of_values(values: list[Any], path: str) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    types = {names.get(type(value), "") for value in values}
    if len(types) != 1 or "" in types:
        raise SchemaError(f"{path}: values of several types have no structural schema: {values}")
    return types.pop()


def _build_union(nodes: list[Object], path: str) -> Object:
    types = {node.get("type", "") for node in nodes}
    if types == {"integer", "string"}:
        return {INT_OR_STRING: True}
    if types == {"integer", "number"}:
        return {"type": "number"}
    if types == {"object"} and all("properties" in node for node in nodes):
        return _merge_objects(nodes, path)
    if len(types) == 1 and all(node.keys() <= {"type", "enum", "description"} for node in nodes):
        # Union of literals or of enums: one set of values.
        values = [value for node in nodes for value in node.get("enum", ())]
        if all("enum" in node for node in nodes):
            return {"type": types.pop(), "enum": list(dict.fromkeys(values))}
    raise SchemaError(
        f"{path}: a union of {', '.join(sorted(t or 'any' for t in types))} has no structural "
        "schema: use one model with optional fields"
    )


def _merge_objects(nodes: list[Object], path: str) -> Object:
    """Merge the branches of a union of models; `oneOf` keeps what tells them apart."""
    properties: Object = {}
    branches: list[Object] = []
    for node in nodes:
        branch: Object = {}
        for name, value in node["properties"].items():
            merged, told_apart = _merge_property(properties.get(name), value, f"{path}.{name}")
            properties[name] = merged
            if told_apart is not None:
                branch.setdefault("properties", {})[name] = told_apart
        if required := node.get("required"):
            branch["required"] = required
        branches.append(branch)
    result: Object = {"type": "object", "properties": properties}
    common = set.intersection(*(set(branch.get("required", ())) for branch in branches))
    if common:
        result["required"] = sorted(common)
    # Branches that do not exclude each other would both match, which oneOf forbids.
    tagged = all("properties" in branch for branch in branches)
    result["oneOf" if tagged else "anyOf"] = branches
    return result


def _merge_property(
    before: Object | None, value: Object, path: str
) -> tuple[Object, Object | None]:
    """Return the merged property, and the check that tells this branch apart (a tag's enum)."""
    if "enum" in value:
        values = [*(before or {}).get("enum", ()), *value["enum"]]
        merged = {**value, "enum": list(dict.fromkeys(values))}
        merged.pop("default", None)  # each branch has its own: none speaks for all
        return merged, {"enum": value["enum"]}
    if before is not None and before != value:
        raise SchemaError(
            f"{path}: two models of the union declare this field differently: rename one"
        )
    return value, None


def _refusal(word: str, path: str) -> str:
    hints = {
        "propertyNames": "a dict with constrained keys",
        "patternProperties": "a dict with constrained keys",
    }
    what = hints.get(word, f"the JSON Schema word {word!r}")
    return f"{path}: {what} has no structural schema: use dict[str, …] and a validate function"
