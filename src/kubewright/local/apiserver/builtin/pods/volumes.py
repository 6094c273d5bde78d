"""Validation of pod volumes and their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_choice, check_label, check_present
from kubewright.local.apiserver.builtin.pods.references import (
    VOLUME_FIELDS,
    validate_field_reference,
    validate_resource_reference,
)
from kubewright.local.apiserver.field_error import duplicate, forbidden, invalid, required

_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MORE_THAN_ONE = "may not specify more than 1 volume type"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MIN_TOKEN_SECONDS = 600


def validate_volumes(volumes: list[Object], field: str) -> tuple[dict[str, Object], list[Cause]]:
    """Return the good volumes by name, and what is wrong with the others."""
    causes: list[Cause] = []
    good: dict[str, Object] = {}
    for index, volume in enumerate(volumes):
        place, name = f"{field}[{index}]", volume.get("name") or ""
        own = validate_source(volume, place)
        own += check_label(name, f"{place}.name") if name else [required(f"{place}.name")]
        if name in good:
            own.append(duplicate(f"{place}.name", name))
        if not own:
            good[name] = volume
        causes += own
    return good, causes


def validate_source(volume: Object, field: str) -> list[Cause]:
    """Return what is wrong with the source of a volume: exactly one kind is set, and that well."""
    causes: list[Cause] = []
    sources = [key for key in _SOURCES if key in volume]
    sources += [key for key in volume if key not in _SOURCES and key != "name"]
    for position, key in enumerate(sources):
        place = f"{field}.{key}"
        if position:
            causes.append(forbidden(place, _MORE_THAN_ONE))
        elif check := _SOURCES.get(key):
            causes += check(volume[key], place)
    if not sources:
        causes.append(required(field, "must specify a volume type"))
    return causes


def _validate_empty_dir(source: Object, field: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity(limit).value < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        return [forbidden(f"{field}.sizeLimit", detail)]
    return []


def validate_host_path(source: Object, field: str) -> list[Cause]:
    """Return what is wrong with a hostPath source."""
    causes = check_present(source, "path", field)
    causes = causes or check_no_backsteps(source.get("path") or "", f"{field}.path")
    return causes + check_choice(source.get("type"), _HOST_PATH_TYPES, f"{field}.type")


def check_no_backsteps(path: str, field: str) -> list[Cause]:
    """Refuse a path that leads upwards."""
    if ".." in path.split("/"):
        return [invalid(field, path, "must not contain '..'")]
    return []


def check_descending(path: str, field: str) -> list[Cause]:
    """Refuse a path that is absolute or leads upwards."""
    causes = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return causes + check_no_backsteps(path, field)


def _check_file_path(path: str, field: str) -> list[Cause]:
    causes = check_descending(path, field)
    if path.startswith("..") and path.split("/")[0] != "..":
        causes.append(invalid(field, path, "must not start with '..'"))
    return causes


def _check_mode(source: Object, key: str, field: str) -> list[Cause]:
    mode = source.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        return [invalid(f"{field}.{key}", mode, _FILE_MODE)]
    return []


def _check_items(source: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(source.get("items") or ()):
        place = f"{field}.items[{index}]"
        causes += check_present(item, "key", place) + check_present(item, "path", place)
        causes += _check_file_path(item.get("path") or "", f"{place}.path")
        causes += _check_mode(item, "mode", place)
    return causes


def _validate_secret(source: Object, field: str) -> list[Cause]:
    causes = check_present(source, "secretName", field)
    return causes + _check_mode(source, "defaultMode", field) + _check_items(source, field)


def _validate_config_map(source: Object, field: str) -> list[Cause]:
    causes = check_present(source, "name", field)
    return causes + _check_mode(source, "defaultMode", field) + _check_items(source, field)


def _validate_claim(source: Object, field: str) -> list[Cause]:
    return check_present(source, "claimName", field)


def validate_nfs(source: Object, field: str) -> list[Cause]:
    """Return what is wrong with an NFS source."""
    causes = check_present(source, "server", field) + check_present(source, "path", field)
    path = source.get("path") or ""
    if path and not path.startswith("/"):
        causes.append(invalid(f"{field}.path", path, "must be an absolute path"))
    return causes


def _validate_downward(source: Object, field: str) -> list[Cause]:
    causes = _check_mode(source, "defaultMode", field)
    for item in source.get("items") or ():
        # The real messages name the source, not the item.
        causes += _validate_downward_file(item, field)
    return causes


def _validate_downward_file(item: Object, field: str) -> list[Cause]:
    causes = check_present(item, "path", field)
    causes += _check_file_path(item.get("path") or "", f"{field}.path")
    if "fieldRef" in item:
        causes += validate_field_reference(item["fieldRef"], VOLUME_FIELDS, f"{field}.fieldRef")
        if "resourceFieldRef" in item:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(field, "resource", detail))
    elif "resourceFieldRef" in item:
        place = f"{field}.resourceFieldRef"
        causes += validate_resource_reference(item["resourceFieldRef"], place, is_volume=True)
    else:
        causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return causes + _check_mode(item, "mode", field)


def _validate_projected(source: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(source.get("sources") or ()):
        causes += _validate_projection(item, f"{field}.sources[{index}]")
    return causes + _check_mode(source, "defaultMode", field)


def _validate_projection(item: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, key in enumerate(item):
        place = f"{field}.{key}"
        if position:
            causes.append(forbidden(place, _MORE_THAN_ONE))
        elif key in ("secret", "configMap"):
            causes += check_present(item[key], "name", place) + _check_items(item[key], place)
        elif key == "downwardAPI":
            causes += _validate_downward(item[key], place)
        elif key == "serviceAccountToken":
            causes += _validate_token(item[key], place)
    if not item:
        causes.append(required(field, "must specify a volume type"))
    return causes


def _validate_token(source: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    seconds = source.get("expirationSeconds") or 0
    if seconds < _MIN_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        causes.append(invalid(f"{field}.expirationSeconds", seconds, detail))
    elif seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{field}.expirationSeconds", seconds, detail))
    path = source.get("path") or ""
    if not path:
        return [*causes, required(f"{field}.path")]
    return causes + _check_file_path(path, f"{field}.path")


def _validate_csi(source: Object, field: str) -> list[Cause]:
    return check_present(source, "driver", field)


_SOURCES: Mapping[str, Callable[[Object, str], list[Cause]]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": validate_host_path,
    "secret": _validate_secret,
    "nfs": validate_nfs,
    "persistentVolumeClaim": _validate_claim,
    "downwardAPI": _validate_downward,
    "configMap": _validate_config_map,
    "projected": _validate_projected,
    "csi": _validate_csi,
}
