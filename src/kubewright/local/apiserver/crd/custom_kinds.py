"""From a CustomResourceDefinition to the kinds that the REST layer serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubewright.api.conditions import is_condition_true
from kubewright.api.resource import Object, Resource
from kubewright.local.apiserver.builtin.definitions import resolve
from kubewright.local.apiserver.conversion import VersionConverter
from kubewright.local.apiserver.crd.custom_strategy import CustomStrategy, VersionRules
from kubewright.local.apiserver.crd.expressions import compile_expressions
from kubewright.local.apiserver.crd.json_path import JSONPath
from kubewright.local.apiserver.crd.printer_columns import PrinterColumns
from kubewright.local.apiserver.crd.published_schema import (
    build_published_schema,
    definition_name,
)
from kubewright.local.apiserver.crd.scale_mapping import build_scale_mapping
from kubewright.local.apiserver.crd.structural_schema import StructuralSchema
from kubewright.local.apiserver.crd.version_order import version_rank
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.schema.node import compile_schema

# In the order in which discovery of the real server lists them.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

BuildConverter = Callable[[Object, Mapping[str, StructuralSchema]], VersionConverter]
"""Builds what asks a definition's webhook, from the definition and the schemas of its versions."""


def is_established(crd: Object) -> bool:
    """Tell whether the names of a definition were accepted, so that it is served."""
    return is_condition_true(crd, "Established")


def custom_kinds(
    crd: Object,
    build_webhook: BuildConverter | None = None,
    is_terminating: Callable[[], bool] | None = None,
) -> list[ServedKind]:
    """Build a `ServedKind` for each served version of an established definition.

    A definition whose names are not accepted yet serves nothing. Call it again whenever what the
    definition specifies changes: kinds are never changed in place. The definition must be valid and
    defaulted (`validate_definition`, `default_definition`). `build_webhook` is needed where its
    conversion strategy is Webhook. `is_terminating` tells at each creation whether the definition
    is being deleted; by default as it is now.

    Raises:
        ValueError: it is needed and missing.
    """
    if not is_established(crd):
        return []
    versions = crd["spec"]["versions"]
    schemas = {version["name"]: _schema_of(version) for version in versions}
    structural = {name: StructuralSchema(schema) for name, schema in schemas.items()}
    webhook = None
    if (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        if build_webhook is None:
            raise ValueError("this definition needs someone who asks its conversion webhook")
        webhook = build_webhook(crd, structural)
    if is_terminating is None:
        is_terminating = partial(is_condition_true, crd, "Terminating")
    return [
        _build_kind(crd, version, schemas[version["name"]], structural, webhook, is_terminating)
        for version in versions
        if version.get("served")
    ]


def storage_version(crd: Object) -> str:
    """Return the name of the version in which objects are stored."""
    return next(str(v["name"]) for v in crd["spec"]["versions"] if v.get("storage"))


def _schema_of(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}


def _build_kind(
    crd: Object,
    version: Mapping[str, Any],
    schema: Mapping[str, Any],
    structural: Mapping[str, StructuralSchema],
    webhook: VersionConverter | None,
    is_terminating: Callable[[], bool],
) -> ServedKind:
    names = crd["status"]["acceptedNames"]
    resource = _resource(crd, version["name"])
    subresources = version.get("subresources") or {}
    scale = build_scale_mapping(subresources)
    rules = VersionRules(
        resource=resource,
        schema=structural[version["name"]],
        has_status="status" in subresources,
        columns=PrinterColumns(version.get("additionalPrinterColumns") or []),
        scale=scale,
        selectable=_selectable(version),
        expressions=compile_expressions(schema),
        is_terminating=is_terminating,
    )
    published = build_published_schema(schema, resource.gvk)
    return ServedKind(
        resource=resource,
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or f"{resource.kind}List",
        strategy=CustomStrategy(rules),
        schema=compile_schema(published, resolve),
        openapi=published,
        definition=definition_name(resource.gvk),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=_VERBS,
        scale=scale,
        is_custom=True,
        storage=_resource(crd, storage_version(crd)),
        convert=None if webhook else build_converter(resource, storage_version(crd), structural),
        webhook=webhook,
        deprecation_warning=build_deprecation_warning(crd, version),
        reset_fields={"": (("status",),), "status": (("metadata",), ("spec",))}
        if rules.has_status
        else {},
    )


def _resource(crd: Object, version: str) -> Resource:
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    namespaced = spec["scope"] == "Namespaced"
    return Resource(spec["group"], version, names["kind"], names["plural"], namespaced)


def _selectable(version: Mapping[str, Any]) -> dict[str, JSONPath]:
    paths = [entry["jsonPath"] for entry in version.get("selectableFields") or ()]
    return {path.removeprefix("."): JSONPath(path) for path in paths}


def build_converter(
    resource: Resource, storage: str, structural: Mapping[str, StructuralSchema]
) -> Callable[[Object], Object]:
    """Build the conversion of strategy None: another apiVersion, and what both versions declare.

    An object that a client reads has been through the stored version's schema, whichever version it
    asks for: fields that the stored version does not declare are lost, its defaults are filled in.
    Of those, the version that is asked for shows what it declares.
    """

    def convert(obj: Object) -> Object:
        _, _, source = str(obj.get("apiVersion") or "").rpartition("/")
        own, target = structural.get(source), structural.get(resource.version)
        if own is not None:
            own.prune(obj)
            own.default(obj)
        if target is not None and target is not own:
            target.prune(obj)
            if resource.version == storage:
                target.default(obj)
        obj["apiVersion"] = resource.api_version
        return obj

    return convert


def build_deprecation_warning(crd: Object, version: Mapping[str, Any]) -> str | None:
    """Build the Warning that answers in a deprecated version carry; None where it is not one."""
    if not version.get("deprecated"):
        return None
    if text := version.get("deprecationWarning"):
        return str(text)
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    own = version["name"]
    newer = [
        other["name"]
        for other in crd["spec"]["versions"]
        if other.get("served")
        and not other.get("deprecated")
        and version_rank(other["name"]) > version_rank(own)
    ]
    warning = f"{group}/{own} {kind} is deprecated"
    if newer:
        warning += f"; use {group}/{max(newer, key=version_rank)} {kind}"
    return warning
