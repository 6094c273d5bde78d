"""What controllers and provisioners read from claims, volumes and storage classes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kubewright.api.quantity import Quantity
from kubewright.api.resource import NamespacedName, Object

if TYPE_CHECKING:
    from kubewright.cache.entry import Entry

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
# A pod whose text has neither of these mounts no claim: most need not be decoded.
_MOUNTS = (b'"persistentVolumeClaim"', b'"ephemeral"')


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def phase_of(obj: Object) -> str:
    """Return the phase of a claim or a volume."""
    return str((obj.get("status") or {}).get("phase") or "")


def class_of(obj: Object) -> str:
    """Return the storage class that a claim or a volume names; empty for none."""
    annotated = annotations_of(obj).get(_BETA_CLASS)
    return annotated if annotated is not None else str(obj["spec"].get("storageClassName") or "")


def has_class(claim: Object) -> bool:
    """Tell whether a claim says which class it wants; an empty name says that it wants none."""
    named = claim["spec"].get("storageClassName") is not None
    return named or _BETA_CLASS in annotations_of(claim)


def find_default_class(classes: Iterable[Object]) -> Object | None:
    """Return the class for claims that name none: of several the newest."""
    default = [c for c in classes if any(annotations_of(c).get(k) == "true" for k in DEFAULT_CLASS)]
    default.sort(key=lambda c: str(c["metadata"]["name"]))
    return max(default, key=lambda c: c["metadata"].get("creationTimestamp") or "", default=None)


def waits_for_consumer(storage_class: Object | None) -> bool:
    """Tell whether claims of a class are bound only when a pod is scheduled."""
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def requested(claim: Object) -> Quantity:
    """Return how much storage a claim asks for."""
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity(str(requests.get("storage") or 0))


def has_storage(claim: Object) -> Quantity:
    """Return how much storage a claim says that it has."""
    storage = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
    return Quantity(str(storage or 0))


def wants_growth(claim: Object) -> bool:
    """Tell whether a bound claim asks for more storage than it says that it has."""
    return phase_of(claim) == "Bound" and requested(claim) > has_storage(claim)


def capacity(volume: Object) -> Quantity:
    """Return how much storage a volume has."""
    return Quantity(str((volume["spec"].get("capacity") or {}).get("storage") or 0))


def mode_of(obj: Object) -> str:
    """Return whether a claim or a volume is a file system or a block device."""
    return str(obj["spec"].get("volumeMode") or "Filesystem")


def is_reserved_for(volume: Object, claim: Object) -> bool:
    """Tell whether a volume names a claim: with its UID, or for whoever comes by that name."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    metadata = claim["metadata"]
    named = (reference.get("namespace"), reference.get("name"))
    if named != (metadata["namespace"], metadata["name"]):
        return False
    return reference.get("uid") in (None, "", metadata["uid"])


def claim_key(volume: Object) -> NamespacedName | None:
    """Return the claim that a volume names."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return None
    return NamespacedName(str(reference.get("namespace") or ""), str(reference.get("name") or ""))


def claims_of_pod(pod: Object) -> Iterator[tuple[str, bool]]:
    """Yield the names of the claims that a pod mounts, and whether they are made for the pod."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"], False
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}", True


def keys_of_pod(entry: Entry) -> list[NamespacedName]:
    """Return the keys of the claims that a pod of a store mounts."""
    if not any(word in entry.raw for word in _MOUNTS):
        return []
    names = claims_of_pod(entry.object())
    return [NamespacedName(entry.meta.namespace, name) for name, _ in names]
