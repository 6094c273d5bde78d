"""Rules of the storage.k8s.io and storagemigration.k8s.io groups."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice, check_qualified, check_unique
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import (
    AGE,
    CREATED_AT,
    NAME,
    NONE,
    UNSET,
    column,
    format_age,
)
from kubewright.local.apiserver.field_error import duplicate, invalid, required
from kubewright.local.apiserver.kind import Column
from kubewright.local.apiserver.objectmeta import IMMUTABLE

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
_BINDING = ("Immediate", "WaitForFirstConsumer")


def _validate_driver(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = check_choice(spec.get("fsGroupPolicy"), _GROUP_POLICIES, "spec.fsGroupPolicy")
    audiences = [request.get("audience") or "" for request in spec.get("tokenRequests") or ()]
    causes += check_unique(audiences, lambda index: f"spec.tokenRequests[{index}].audience")
    for mode in spec.get("volumeLifecycleModes") or ():
        causes += check_choice(mode, _LIFECYCLES, "spec.volumeLifecycleModes", needed=True)
    return causes


def _validate_topology(terms: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    for position, term in enumerate(terms):
        field = f"allowedTopologies[{position}].matchLabelExpressions"
        seen: set[str] = set()
        for index, wanted in enumerate(term.get("matchLabelExpressions") or ()):
            place, values = f"{field}[{index}]", wanted.get("values") or []
            if not values:
                causes.append(required(f"{place}.values"))
            causes += check_unique(values, f"{place}.values[{{}}]".format)
            if wanted.get("key") in seen:
                causes.append(duplicate(f"{place}.key", wanted["key"]))
            seen.add(wanted.get("key") or "")
    return causes


def _validate_class(obj: Object) -> list[Cause]:
    provisioner = (obj.get("provisioner") or "").lower()
    causes = check_qualified(provisioner, "provisioner") if provisioner else []
    if "" in (obj.get("parameters") or {}):
        causes.append(invalid("parameters", "", "field can not be empty."))
    causes += check_choice(obj.get("reclaimPolicy"), ("Delete", "Retain"), "reclaimPolicy")
    causes += check_choice(obj.get("volumeBindingMode"), _BINDING, "volumeBindingMode")
    causes += _validate_topology(obj.get("allowedTopologies") or [])
    return causes if provisioner else [*causes, required("provisioner")]


def _validate_class_update(obj: Object, old: Object) -> list[Cause]:
    keys = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
    return [
        invalid(key, None, IMMUTABLE)
        for key in keys
        if (obj.get(key) or None) != (old.get(key) or None)
    ]


def _class_cells(obj: Object, now: datetime) -> list[Any]:
    expands = bool(obj.get("allowVolumeExpansion"))
    return [
        obj["metadata"].get("name", ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", UNSET),
        expands,
        format_age(obj, now),
    ]


def _driver_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    requests = spec.get("tokenRequests")
    audiences = UNSET if not requests else ",".join(r.get("audience", "") for r in requests)
    return [
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        audiences,
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        format_age(obj, now),
    ]


def _attachment_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool((obj.get("status") or {}).get("attached"))
    place = [spec.get("attacher", ""), volume, spec.get("nodeName", "")]
    return [*place, attached, format_age(obj, now)]


_MIGRATION_STATES = ("Running", "Failed", "Succeeded")


def _migration_cells(obj: Object, now: datetime) -> list[Any]:
    resource = (obj.get("spec") or {}).get("resource") or {}
    group = f".{resource['group']}" if resource.get("group") else ""
    state = "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _MIGRATION_STATES:
            state = condition["type"]
    name = obj["metadata"].get("name", "")
    return [name, f"{resource.get('resource', '')}{group}", state]


_RESETS = (("metadata",), ("spec",))
RULES: Mapping[str, Rules] = {
    "StorageClass": Rules(
        validate=_validate_class,
        validate_update=_validate_class_update,
        table=Table(
            (
                NAME,
                column("Provisioner"),
                column("ReclaimPolicy"),
                column("VolumeBindingMode"),
                column("AllowVolumeExpansion"),
                AGE,
            ),
            _class_cells,
            names_first=False,
        ),
    ),
    "CSIDriver": Rules(
        validate=_validate_driver,
        allow_unconditional_update=False,
        table=Table(
            (
                column("AttachRequired", "boolean"),
                column("PodInfoOnMount", "boolean"),
                column("StorageCapacity", "boolean"),
                column("TokenRequests"),
                column("RequiresRepublish", "boolean"),
                column("Modes"),
                AGE,
            ),
            _driver_cells,
        ),
    ),
    "CSINode": Rules(
        allow_unconditional_update=False,
        status_resets=_RESETS,
        table=Table(
            (column("Drivers", "integer"), AGE),
            lambda obj, now: [len(obj["spec"].get("drivers") or ()), format_age(obj, now)],
        ),
    ),
    "CSIStorageCapacity": Rules(
        allow_unconditional_update=False,
        table=Table((CREATED_AT,), lambda obj, now: [obj["metadata"].get("creationTimestamp")]),
    ),
    "VolumeAttachment": Rules(
        allow_unconditional_update=False,
        status_resets=_RESETS,
        table=Table(
            (
                Column("Attacher", "string", "name"),
                column("PV"),
                column("Node"),
                column("Attached", "boolean"),
                AGE,
            ),
            _attachment_cells,
        ),
    ),
    "VolumeAttributesClass": Rules(
        table=Table(
            (column("DriverName"), AGE),
            lambda obj, now: [obj.get("driverName", ""), format_age(obj, now)],
        ),
    ),
    "StorageVersionMigration": Rules(
        allow_unconditional_update=False,
        status_resets=_RESETS,
        table=Table(
            (column("Name"), column("Resource"), column("Status")),
            _migration_cells,
            names_first=False,
        ),
    ),
}
