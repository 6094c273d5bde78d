"""Values as messages print them in the API server's internal types: Go's field names, all of them.

A field that is not set shows as null, or as "" where Go's field is a text and no pointer.
"""

from __future__ import annotations

import difflib
import json
from typing import Any

from kubewright.api.resource import Object

# The fields of a type in Go's order. Not set, one that begins with a dot is an empty text, one with
# a mark is zero. A name after a colon is the type of the field; it ends with a mark where the field
# is always there, and with a star where it is that of the items of a list.
_TYPES = {
    "SecurityContext": (
        "capabilities:Capabilities privileged seLinuxOptions:SELinuxOptions "
        "windowsOptions:WindowsOptions runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem "
        "allowPrivilegeEscalation procMount seccompProfile:Profile appArmorProfile:Profile"
    ),
    "Capabilities": "add drop",
    "SELinuxOptions": ".user .role .type .level",
    "WindowsOptions": "gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess",
    "Profile": ".type localhostProfile",
    "ClaimSpec": (
        "accessModes selector resources:Resources! .volumeName storageClassName volumeMode "
        "dataSource:LocalReference dataSourceRef:TypedReference volumeAttributesClassName"
    ),
    "LocalReference": "apiGroup .kind .name",
    "TypedReference": "apiGroup .kind .name namespace",
    "Resources": "limits requests",
    "SuccessPolicy": "rules:SuccessRule*",
    "SuccessRule": "succeededIndexes succeededCount",
    "UncountedPods": "succeeded failed",
    "DeploymentStrategy": ".type rollingUpdate:RollingUpdate",
    "RollingUpdate": "maxUnavailable maxSurge",
    "StatefulSetUpdate": "!partition maxUnavailable",
    "ClaimStatus": (
        ".phase accessModes capacity conditions allocatedResources allocatedResourceStatuses "
        "currentVolumeAttributesClassName modifyVolumeStatus healthStatus"
    ),
}
_NAMES = {
    "apiGroup": "APIGroup",
    "seLinuxOptions": "SELinuxOptions",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "gmsaCredentialSpec": "GMSACredentialSpec",
}


def show_internal(value: Object, kind: str) -> Object:
    """Return an object as messages print it.

    Args:
        value: as the API has it.
        kind: a type of the table, or `PersistentVolumeClaim`, whose metadata keeps its form.
    """
    if kind == "PersistentVolumeClaim":
        metadata = value.get("metadata") or {}
        return {
            **{key: item for key, item in metadata.items() if item},
            "Spec": show_internal(value.get("spec") or {}, "ClaimSpec"),
            "Status": show_internal(value.get("status") or {}, "ClaimStatus"),
        }
    shown: Object = {}
    for field in _TYPES[kind].split():
        name, _, inner = field.partition(":")
        key = name.lstrip(".!")
        shown[_NAMES.get(key, key[0].upper() + key[1:])] = _show_field(value, name, inner)
    return shown


def show_difference(old: Object, new: Object, kind: str) -> str:
    """Return where two objects differ, as lines that were taken out and put in."""
    before, after = (
        json.dumps(show_internal(value, kind), indent=1, ensure_ascii=False).splitlines()
        for value in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm=""))
    # The first two would name files.
    return "".join(f"{line}\n" for line in lines[2:])


def _show_field(value: Object, name: str, inner: str) -> Any:
    found = value.get(name.lstrip(".!"))
    if inner.endswith("*"):
        return [show_internal(item, inner[:-1]) for item in found or ()] if found else None
    if inner and (found is not None or inner.endswith("!")):
        return show_internal(found or {}, inner.removesuffix("!"))
    if found is None:
        return {".": "", "!": 0}.get(name[0])
    return found
