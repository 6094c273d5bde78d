"""Volumes that are folders of a node: who makes one, what it says, when it goes. Pure."""

from __future__ import annotations

from pathlib import Path

from kubewright.api.resource import Object
from kubewright.local.storage.claim import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    class_of,
    mode_of,
    phase_of,
    requested,
    waits_for_consumer,
)

NAME = "kubewright.dev/local-volume"
"""The name by which storage classes ask for such volumes."""

STANDARD = "standard"
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
HOSTNAME = "kubernetes.io/hostname"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_RESIZING = ("Resizing", "FileSystemResizePending")


def build_storage_class(*, default: bool) -> Object:
    """Build the class `standard`: what a cluster with nodes has, the default where none is."""
    metadata: Object = {"name": STANDARD}
    if default:
        metadata["annotations"] = {_DEFAULT_CLASS: "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": NAME,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def volume_name(claim: Object) -> str:
    """Return the name of the volume of a claim: to make it twice makes one."""
    return f"pvc-{claim['metadata']['uid']}"


def is_asked(claim: Object, storage_class: Object, node: str) -> bool:
    """Tell whether the provisioner of a node is to make the volume of a claim.

    Without a selected node, which only a class that binds at once allows, whoever is first may.
    """
    annotations = annotations_of(claim)
    if annotations.get(PROVISIONER) != NAME or storage_class.get("provisioner") != NAME:
        return False
    if claim["spec"].get("volumeName") or claim["metadata"].get("deletionTimestamp"):
        return False
    selected = annotations.get(SELECTED_NODE)
    return selected == node if selected else not waits_for_consumer(storage_class)


def find_refusal(claim: Object) -> str:
    """Return why no folder can be what a claim asks for; empty when one can."""
    spec = claim["spec"]
    if spec.get("selector"):
        return "claim Selector is not supported"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "a volume of a folder begins empty: data sources are not supported"
    if mode_of(claim) == "Block":
        return "a volume of a folder is a file system: volumeMode Block is not supported"
    return ""


def build_folder_name(claim: Object) -> str:
    """Build the name of a claim's folder, by which people find it."""
    metadata = claim["metadata"]
    return f"{volume_name(claim)}_{metadata['namespace']}_{metadata['name']}"


def build_volume(claim: Object, storage_class: Object, node: str, folder: Path) -> Object:
    """Build the volume of a claim, bound to it, reachable on its node only."""
    metadata = claim["metadata"]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {PROVISIONED_BY: NAME},
            # Whoever deletes the volume waits until its folder is gone.
            **({"finalizers": [FINALIZER]} if policy == "Delete" else {}),
        },
        "spec": {
            "capacity": {"storage": str(requested(claim))},
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class_of(claim),
            "volumeMode": "Filesystem",
            "local": {"path": str(folder / build_folder_name(claim))},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        },
    }


def is_on(volume: Object, node: str) -> bool:
    """Tell whether a volume is a folder that was made on a node."""
    if annotations_of(volume).get(PROVISIONED_BY) != NAME or "local" not in volume["spec"]:
        return False
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    return any(
        expression.get("key") == HOSTNAME and node in (expression.get("values") or ())
        for term in required.get("nodeSelectorTerms") or ()
        for expression in term.get("matchExpressions") or ()
    )


def is_to_be_removed(volume: Object) -> bool:
    """Tell whether a volume and its folder are to go: its claim is gone, and nobody retains it."""
    policy = volume["spec"].get("persistentVolumeReclaimPolicy")
    return policy == "Delete" and phase_of(volume) in ("Released", "Failed")


def is_held_for_nothing(volume: Object) -> bool:
    """Tell whether the finalizer holds a volume whose folder stays: its policy was changed."""
    finalizers = volume["metadata"].get("finalizers") or ()
    policy = volume["spec"].get("persistentVolumeReclaimPolicy")
    return FINALIZER in finalizers and policy != "Delete"


def without_finalizer(volume: Object) -> Object:
    """Build a volume that we hold no longer."""
    finalizers = volume["metadata"].get("finalizers") or ()
    left = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    return {**volume, "metadata": {**volume["metadata"], "finalizers": left}}


def build_grown_volume(volume: Object, claim: Object) -> Object:
    """Build a volume as large as its claim asks for."""
    capacity = {**(volume["spec"].get("capacity") or {}), "storage": str(requested(claim))}
    return {**volume, "spec": {**volume["spec"], "capacity": capacity}}


def build_grown_claim(claim: Object) -> Object:
    """Build a claim that says that it has what it asks for, and that growing is over."""
    status = {**(claim.get("status") or {})}
    status["capacity"] = {**(status.get("capacity") or {}), "storage": str(requested(claim))}
    conditions = [c for c in status.get("conditions") or () if c["type"] not in _RESIZING]
    status.pop("conditions", None)
    return {**claim, "status": {**status, "conditions": conditions} if conditions else status}
