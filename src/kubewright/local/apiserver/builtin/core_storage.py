"""Rules of PersistentVolume and PersistentVolumeClaim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_label,
    check_selector,
    check_subdomain,
)
from kubewright.local.apiserver.builtin.internal_form import show_difference
from kubewright.local.apiserver.builtin.pods.volumes import validate_host_path, validate_nfs
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.table import AGE, UNSET, column, format_age
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
# Fields of a volume's spec that are not its source.
_NOT_SOURCES = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName"
    " for bound claims"
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _add_finalizer(obj: Object, name: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if name not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, name]


def _prepare_volume(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    if created := obj["metadata"].get("creationTimestamp"):
        obj["status"]["lastPhaseTransitionTime"] = created
    _add_finalizer(obj, "kubernetes.io/pv-protection")


def _validate_access_modes(modes: list[str], field: str) -> list[Cause]:
    causes = [
        not_supported(field, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden(field, detail))
    return causes


def _validate_volume(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    causes = [] if modes else [required("spec.accessModes")]
    causes += _validate_access_modes(modes, "spec.accessModes")
    if not capacity:
        causes.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        given = spec.get("capacity")
        shown = None if given is None else dict(sorted(given.items()))
        causes.append(not_supported("spec.capacity", shown, ("storage",)))
    for name, amount in capacity.items():
        whole, place = int(Quantity(amount).value), f"spec.capacity[{name}]"
        if whole < 0:
            causes.append(invalid(place, whole, "must be a valid resource quantity"))
        if Quantity(amount).value <= 0:
            causes.append(invalid(place, amount, "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += check_choice(policy, _RECLAIM, "spec.persistentVolumeReclaimPolicy")
    causes += _validate_volume_source(spec)
    if name := spec.get("storageClassName"):
        causes += check_subdomain(name, "spec.storageClassName")
    return causes + check_choice(spec.get("volumeMode"), _MODES, "spec.volumeMode")


def _validate_volume_source(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    sources = sorted(
        (key for key in spec if key not in _NOT_SOURCES), key=lambda k: k != "hostPath"
    )
    for position, key in enumerate(sources):
        field = f"spec.{key}"
        if position:
            causes.append(forbidden(field, "may not specify more than 1 volume type"))
        elif key == "hostPath":
            causes += validate_host_path(spec[key], field)
        elif key == "nfs":
            causes += validate_nfs(spec[key], field)
        elif key == "local":
            causes += [] if spec[key].get("path") else [required(f"{field}.path")]
            if "nodeAffinity" not in spec:
                detail = "Local volume requires node affinity"
                causes.append(required("spec.nodeAffinity", detail))
    return causes if sources else [*causes, required("spec", "must specify a volume type")]


def _validate_volume_update(obj: Object, old: Object) -> list[Cause]:
    def source(volume: Object) -> Object:
        return {key: value for key, value in volume["spec"].items() if key not in _NOT_SOURCES}

    if source(obj) != source(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        return [forbidden("spec.persistentvolumesource", f"{detail}\n")]
    return []


def short_modes(modes: list[str] | None) -> str:
    """Write access modes in their short forms."""
    wanted = set(modes or ())
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in wanted)


def _class_of(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    name = annotations.get(_CLASS_ANNOTATION)
    return str(name if name is not None else obj["spec"].get("storageClassName") or "")


def _phase(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj["status"].get("phase") or "")


def _volume_cells(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    claim = spec.get("claimRef")
    return [
        (spec.get("capacity") or {}).get("storage", "0"),
        short_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        obj["status"].get("reason", ""),
        format_age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def validate_claim_spec(spec: Object, field: str = "spec") -> list[Cause]:
    """Return what is wrong with the spec of a claim."""
    modes = spec.get("accessModes") or []
    detail = "at least 1 access mode is required"
    causes = [] if modes else [required(f"{field}.accessModes", detail)]
    causes += check_selector(spec.get("selector"), f"{field}.selector")
    causes += _validate_access_modes(modes, f"{field}.accessModes")
    place = f"{field}.resources[storage]"
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required(place))
    elif Quantity(storage).value <= 0:
        causes.append(invalid(place, storage, "must be greater than zero"))
    if name := spec.get("storageClassName"):
        causes += check_subdomain(name, f"{field}.storageClassName")
    causes += check_choice(spec.get("volumeMode"), _MODES, f"{field}.volumeMode")
    causes += _validate_data_sources(spec, field)
    if name := spec.get("volumeAttributesClassName"):
        causes += check_subdomain(name, f"{field}.volumeAttributesClassName")
    return causes


def _validate_data_sources(spec: Object, field: str) -> list[Cause]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    causes = _validate_data_source(source, f"{field}.dataSource")
    causes += _validate_data_source(reference, f"{field}.dataSourceRef")
    if source is None or reference is None:
        return causes
    # kube-apiserver shows a path here, which it prints as an empty object.
    if reference.get("namespace"):
        detail = "may not be specified when dataSourceRef.namespace is specified"
        causes.append(invalid(field, {}, detail))
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        causes.append(invalid(field, {}, "must match dataSourceRef"))
    return causes


def _validate_data_source(source: Object | None, field: str) -> list[Cause]:
    if source is None:
        return []
    causes = [required(f"{field}.{key}") for key in ("name", "kind") if not source.get(key)]
    kind, group = source.get("kind") or "", source.get("apiGroup") or ""
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        causes.append(invalid(field, kind, detail))
    if group:
        causes += check_subdomain(group, f"{field}.apiGroup")
    if namespace := source.get("namespace"):
        causes += check_label(namespace, f"{field}.namespace")
    return causes


def _prepare_claim(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    _sync_data_source(obj["spec"])
    _add_finalizer(obj, "kubernetes.io/pvc-protection")


def _sync_data_source(spec: Object) -> None:
    """Keep `dataSource` and `dataSourceRef` equal where only one is set."""
    if "dataSource" in spec and "dataSourceRef" not in spec:
        spec["dataSourceRef"] = dict(spec["dataSource"])
    elif "dataSourceRef" in spec and "dataSource" not in spec:
        reference = spec["dataSourceRef"]
        if not reference.get("namespace") and not reference.get("apiGroup"):
            spec["dataSource"] = dict(reference)


def _validate_claim(obj: Object) -> list[Cause]:
    return validate_claim_spec(obj["spec"])


def _storage(spec: Object) -> Quantity:
    requests = (spec.get("resources") or {}).get("requests") or {}
    return Quantity(requests.get("storage", "0"))


def _validate_claim_update(obj: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = dict(obj["spec"]), dict(old["spec"])
    is_bound = (old.get("status") or {}).get("phase") == "Bound"
    # What may change is made equal, so that the difference shows the rest.
    if not old_spec.get("volumeName") and new_spec.get("volumeName"):
        old_spec["volumeName"] = new_spec["volumeName"]
    if old_spec.get("storageClassName") is None:
        new_spec.pop("storageClassName", None)
    if is_bound:
        _copy_field(old_spec, new_spec, "volumeAttributesClassName")
        new_spec["resources"] = {**(new_spec.get("resources") or {})}
        _copy_field(old_spec.get("resources") or {}, new_spec["resources"], "requests")
    if new_spec != old_spec:
        difference = show_difference(old_spec, new_spec, "ClaimSpec")
        return [forbidden("spec", f"{_IMMUTABLE_CLAIM}\n{difference}")]
    if is_bound and _storage(obj["spec"]) < _storage(old["spec"]):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
        if capacity is None or _storage(obj["spec"]) <= Quantity(capacity):
            detail = "field can not be less than status.capacity"
            return [forbidden("spec.resources.requests.storage", detail)]
    return []


def _copy_field(source: Object, target: Object, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _claim_cells(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    volume = spec.get("volumeName") or ""
    capacity = (status.get("capacity") or {}).get("storage", "0") if volume else ""
    return [
        _phase(obj),
        volume,
        capacity,
        short_modes(status.get("accessModes")) if volume else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        format_age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


RULES: Mapping[str, Rules] = {
    "PersistentVolume": Rules(
        prepare_for_create=_prepare_volume,
        validate=_validate_volume,
        validate_update=_validate_volume_update,
        fields={"name": text_at("metadata", "name")},
        table=Table(
            (
                column("Capacity"),
                column("Access Modes"),
                column("Reclaim Policy"),
                column("Status"),
                column("Claim"),
                column("StorageClass"),
                column("VolumeAttributesClass"),
                column("Reason"),
                AGE,
                column("VolumeMode", wide=True),
            ),
            _volume_cells,
        ),
    ),
    "PersistentVolumeClaim": Rules(
        prepare_for_create=_prepare_claim,
        validate=_validate_claim,
        validate_update=_validate_claim_update,
        fields={"name": text_at("metadata", "name")},
        table=Table(
            (
                column("Status"),
                column("Volume"),
                column("Capacity"),
                column("Access Modes"),
                column("StorageClass"),
                column("VolumeAttributesClass"),
                AGE,
                column("VolumeMode", wide=True),
            ),
            _claim_cells,
        ),
    ),
}
