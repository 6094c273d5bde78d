"""Validation of object metadata, shared by built-in and custom kinds.

Rules and wording of `k8s.io/apimachinery/pkg/api/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kubewright.api.errors import Cause
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.field_error import (
    forbidden,
    invalid,
    required,
    show,
    too_long,
)
from kubewright.local.apiserver.formats import (
    check_dns_1035_label,
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)

NameRule: TypeAlias = Callable[[str], list[str]]
"""Returns what is wrong with an object's name."""

ANNOTATIONS_LIMIT = 256 * 1024
IMMUTABLE = "field is immutable"
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_READ_ONLY: Mapping[str, Any] = {
    "name": "",
    "namespace": "",
    "uid": "",
    "creationTimestamp": None,
    "deletionTimestamp": None,
    "deletionGracePeriodSeconds": None,
}
_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)

dns_label: NameRule = check_dns_label
dns_subdomain: NameRule = check_dns_subdomain
dns_1035_label: NameRule = check_dns_1035_label


def order_metadata(meta: Object, *, is_custom: bool) -> Object:
    """Return metadata in the order in which kube-apiserver writes it, whoever wrote it before.

    Built-in kinds keep the order of ObjectMeta; custom ones are maps, sorted by key.
    """
    if is_custom:
        return dict(sorted(meta.items()))
    ordered = {key: meta[key] for key in _ORDER if key in meta}
    return ordered if len(ordered) == len(meta) else {**ordered, **meta}


def path_segment(name: str) -> list[str]:
    """Check a name that only must not break a URL path (RBAC kinds)."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def validate_object_meta(
    meta: Object,
    *,
    namespaced: bool,
    name_rule: NameRule = dns_subdomain,
    finalizers_need_domain: bool = False,
    field: str = "metadata",
) -> list[Cause]:
    """Return what is wrong with the metadata of a new object; its name is generated already.

    `finalizers_need_domain` refuses finalizers such as `mine`, which the core types do.
    """
    causes = _validate_names(meta, namespaced, name_rule, field)
    if int(meta.get("generation") or 0) < 0:
        causes.append(_negative(f"{field}.generation", meta["generation"]))
    causes += validate_labels(meta.get("labels"), f"{field}.labels")
    causes += validate_annotations(meta.get("annotations"), f"{field}.annotations")
    causes += _validate_owners(meta.get("ownerReferences") or [], f"{field}.ownerReferences")
    finalizers = meta.get("finalizers") or []
    causes += validate_finalizers(finalizers, f"{field}.finalizers")
    if finalizers_need_domain:
        causes += validate_qualified_finalizers(finalizers, f"{field}.finalizers")
    return causes


def _validate_names(meta: Object, namespaced: bool, name_rule: NameRule, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if prefix := meta.get("generateName"):
        masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        causes += [invalid(f"{field}.generateName", prefix, fault) for fault in name_rule(masked)]
    name, namespace = meta.get("name"), meta.get("namespace")
    if not name:
        causes.append(required(f"{field}.name", "name or generateName is required"))
    else:
        causes += [invalid(f"{field}.name", name, fault) for fault in name_rule(name)]
    if namespaced and not namespace:
        causes.append(required(f"{field}.namespace"))
    elif namespaced:
        faults = check_dns_label(str(namespace))
        causes += [invalid(f"{field}.namespace", namespace, fault) for fault in faults]
    elif namespace:
        causes.append(forbidden(f"{field}.namespace", "not allowed on this type"))
    return causes


def validate_object_meta_update(
    new: Object, old: Object, *, field: str = "metadata"
) -> list[Cause]:
    """Return what is wrong with a change of metadata.

    The REST layer has restored what the server owns (uid, creationTimestamp) where it was left out.
    """
    causes: list[Cause] = []
    if old.get("deletionTimestamp"):
        causes += _validate_no_new_finalizers(new, old, f"{field}.finalizers")
    if not new.get("resourceVersion"):
        # The registry reads the version as a number.
        causes.append(invalid(f"{field}.resourceVersion", 0, "must be specified for an update"))
    generation, before = int(new.get("generation") or 0), int(old.get("generation") or 0)
    if generation < 0:
        causes.append(_negative(f"{field}.generation", generation))
    if generation < before:
        causes.append(invalid(f"{field}.generation", generation, "must not be decremented"))
    for key, empty in _READ_ONLY.items():
        if (new.get(key) or empty) != (old.get(key) or empty):
            causes.append(invalid(f"{field}.{key}", new.get(key, empty), IMMUTABLE))
    causes += validate_labels(new.get("labels"), f"{field}.labels")
    causes += validate_annotations(new.get("annotations"), f"{field}.annotations")
    causes += _validate_owners(new.get("ownerReferences") or [], f"{field}.ownerReferences")
    causes += validate_finalizers(new.get("finalizers") or [], f"{field}.finalizers")
    return causes


def _validate_no_new_finalizers(new: Object, old: Object, field: str) -> list[Cause]:
    extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not extra:
        return []
    shown = ", ".join(show(name) for name in extra)
    detail = (
        "no new finalizers can be added if the object is being deleted,"
        f" found new finalizers []string{{{shown}}}"
    )
    return [forbidden(field, detail)]


def validate_labels(labels: Mapping[str, str] | None, field: str) -> list[Cause]:
    """Return what is wrong with label keys and values."""
    causes: list[Cause] = []
    for key, value in (labels or {}).items():
        causes += [invalid(field, key, fault) for fault in check_qualified_name(key)]
        causes += [invalid(field, value, fault) for fault in check_label_value(value)]
    return causes


def validate_annotations(annotations: Mapping[str, str] | None, field: str) -> list[Cause]:
    """Return what is wrong with annotation keys, and with their total size."""
    causes: list[Cause] = []
    size = 0
    for key, value in (annotations or {}).items():
        causes += [invalid(field, key, fault) for fault in check_qualified_name(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT:
        causes.append(too_long(field, ANNOTATIONS_LIMIT))
    return causes


def _validate_owners(owners: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, owner in enumerate(owners):
        causes += _validate_owner(owner, f"{field}[{index}]")
    controllers = [f"{o.get('kind')}/{o.get('name')}" for o in owners if o.get("controller")]
    for other in controllers[1:]:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for'
            f" {controllers[0]} and {other}"
        )
        causes.append(invalid(field, owners, detail))
    return causes


def _validate_owner(owner: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    api_version = owner.get("apiVersion") or ""
    gvk = GroupVersionKind.parse(api_version, owner.get("kind") or "")
    if not api_version:
        causes.append(required(f"{field}.apiVersion", "must not be empty"))
    elif api_version.count("/") > 1 or not gvk.version:
        detail = "must be <group>/<version> or <version>"
        causes.append(invalid(f"{field}.apiVersion", api_version, detail))
    causes += [
        required(f"{field}.{key}", "must not be empty")
        for key in ("kind", "name", "uid")
        if not owner.get(key)
    ]
    if gvk == GroupVersionKind("", "v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        causes.append(invalid(field, owner, detail))
    return causes


def validate_finalizers(finalizers: list[str], field: str) -> list[Cause]:
    """Return what is wrong with the names of finalizers; two of them exclude each other."""
    causes = [
        invalid(field, name, fault) for name in finalizers for fault in check_qualified_name(name)
    ]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid(field, finalizers, detail))
    return causes


def validate_qualified_finalizers(finalizers: list[str], field: str) -> list[Cause]:
    """Return the finalizers that have no domain and are no standard ones."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{field}[{index}]", name, detail)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _negative(field: str, value: int) -> Cause:
    return invalid(field, value, "must be greater than or equal to 0")
