"""Validate CustomResourceDefinitions, in the order and the words of the real API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.conditions import is_condition_true
from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd import api_approval
from kubewright.local.apiserver.crd.conversion_rules import validate_conversion
from kubewright.local.apiserver.crd.definition import show_versions, version_parts
from kubewright.local.apiserver.crd.schema_rules import validate_schema
from kubewright.local.apiserver.crd.version_rules import (
    validate_columns,
    validate_deprecation,
    validate_selectable_fields,
    validate_subresources,
)
from kubewright.local.apiserver.field_error import invalid, not_supported, required
from kubewright.local.apiserver.formats import check_dns_1035_label, check_dns_subdomain
from kubewright.local.apiserver.objectmeta import (
    IMMUTABLE,
    validate_object_meta,
    validate_object_meta_update,
)


def validate_definition(crd: Object) -> list[Cause]:
    """Return what is wrong with a new definition; it is defaulted and its status prepared."""
    spec = crd["spec"]
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"

    def check_name(name: str) -> list[str]:
        faults = check_dns_subdomain(name)
        if name != expected:
            faults.append('must be spec.names.plural+"."+spec.group')
        return faults

    causes = validate_object_meta(crd["metadata"], namespaced=False, name_rule=check_name)
    causes += _validate_spec(spec)
    causes += _validate_names(
        (crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"
    )
    causes += _validate_stored_versions(crd)
    causes += _validate_approval(crd)
    if spec.get("preserveUnknownFields"):
        causes.append(_preserve_refused())
    return causes


def validate_definition_update(crd: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of a definition."""
    spec, before = crd["spec"], old["spec"]
    causes = validate_object_meta_update(crd["metadata"], old["metadata"])
    causes += _validate_spec(spec)
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    if is_condition_true(old, "Established"):
        causes += _unchanged(spec.get("scope"), before.get("scope"), "spec.scope")
        causes += _unchanged(names.get("kind"), old_names.get("kind"), "spec.names.kind")
    causes += _unchanged(spec.get("group"), before.get("group"), "spec.group")
    causes += _unchanged(names.get("plural"), old_names.get("plural"), "spec.names.plural")
    if not crd["metadata"].get("deletionTimestamp"):
        # Nothing in the status may keep a definition from going away.
        causes += _validate_stored_versions(crd)
    if api_approval.read_annotation(crd) != api_approval.read_annotation(old) or spec.get(
        "group"
    ) != before.get("group"):
        causes += _validate_approval(crd)
    if spec.get("preserveUnknownFields") and not before.get("preserveUnknownFields"):
        causes.append(_preserve_refused())
    return causes


def validate_definition_status(crd: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of a definition's status."""
    causes = validate_object_meta_update(crd["metadata"], old["metadata"])
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    return causes + _validate_names(accepted, "status.acceptedNames")


def _unchanged(new: Any, old: Any, field: str) -> list[Cause]:
    return [] if new == old else [invalid(field, new, IMMUTABLE)]


def _preserve_refused() -> Cause:
    detail = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    return invalid("spec.preserveUnknownFields", True, detail)


def _validate_spec(spec: Mapping[str, Any]) -> list[Cause]:
    names = spec.get("names") or {}
    causes = _validate_group(spec.get("group") or "")
    causes += validate_choice("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    causes += _validate_schemas_present(spec)
    causes += _validate_versions(spec)
    causes += [
        required(f"spec.names.{key}")
        for key in ("plural", "singular", "kind", "listKind")
        if not names.get(key)
    ]
    causes += _validate_names(names, "spec.names")
    has_status = any(
        "status" in (version.get("subresources") or {}) for version in spec.get("versions") or ()
    )
    for path, schema in version_parts(spec, "schema"):
        if schema.get("openAPIV3Schema") is not None:
            causes += validate_schema(
                schema["openAPIV3Schema"], f"{path}.openAPIV3Schema", has_status=has_status
            )
    for path, subresources in version_parts(spec, "subresources"):
        causes += validate_subresources(subresources, path)
    for path, columns in version_parts(spec, "additionalPrinterColumns"):
        causes += validate_columns(columns, path)
    causes += validate_selectable_fields(spec)
    return causes + validate_conversion(spec.get("conversion"))


def _validate_group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    if faults := check_dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(faults))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def validate_choice(field: str, value: str | None, choices: Sequence[str]) -> list[Cause]:
    """Check that a field holds one of a few words."""
    if not value:
        return [required(field)]
    return [] if value in choices else [not_supported(field, value, choices)]


def _validate_schemas_present(spec: Mapping[str, Any]) -> list[Cause]:
    return [
        required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(spec.get("versions") or ())
        if (version.get("schema") or {}).get("openAPIV3Schema") is None
    ]


def _validate_versions(spec: Mapping[str, Any]) -> list[Cause]:
    versions = spec.get("versions")
    entries = versions or []
    causes: list[Cause] = []
    for index, version in enumerate(entries):
        name = version.get("name") or ""
        if faults := check_dns_1035_label(name):
            causes.append(invalid(f"spec.versions[{index}].name", name, ",".join(faults)))
        causes += validate_deprecation(version, f"spec.versions[{index}]")
    shown = None if versions is None else show_versions(entries)
    names = [version.get("name") for version in entries]
    if len(set(names)) != len(names):
        causes.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in entries) != 1:
        detail = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", shown, detail))
    # The internal type repeats the first version's name, and its check reports it again.
    if names and (faults := check_dns_1035_label(names[0] or "")):
        causes.append(invalid("spec.version", names[0] or "", ",".join(faults)))
    return causes


def _validate_names(names: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("plural", "singular"):
        name = names.get(key) or ""
        if name and (faults := check_dns_1035_label(name)):
            causes.append(invalid(f"{path}.{key}", name, ",".join(faults)))
    for key in ("kind", "listKind"):
        name = names.get(key) or ""
        if name and (faults := check_dns_1035_label(name.lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(faults)}"
            causes.append(invalid(f"{path}.{key}", name, detail))
    for key in ("shortNames", "categories"):
        for index, name in enumerate(names.get(key) or ()):
            if faults := check_dns_1035_label(name):
                causes.append(invalid(f"{path}.{key}[{index}]", name, ",".join(faults)))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        causes.append(invalid(f"{path}.listKind", names["listKind"], detail))
    return causes


def _validate_stored_versions(crd: Object) -> list[Cause]:
    field = "status.storedVersions"
    stored = (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid(field, None, "must have at least one stored version")]
    versions = crd["spec"].get("versions") or []
    causes = [
        invalid(field, stored, f"must have the storage version {version.get('name')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    present = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in present:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            causes.append(invalid(f"{field}[{index}]", name, detail))
    return causes


def _validate_approval(crd: Object) -> list[Cause]:
    if not api_approval.is_protected(crd["spec"].get("group") or ""):
        return []
    field = f"metadata.annotations[{api_approval.ANNOTATION}]"
    annotation = api_approval.read_annotation(crd)
    approval = api_approval.read_approval(annotation)
    if approval.reason == "MissingAnnotation":
        return [required(field, approval.message)]
    if approval.reason == "InvalidAnnotation":
        return [invalid(field, annotation, approval.message)]
    return []
