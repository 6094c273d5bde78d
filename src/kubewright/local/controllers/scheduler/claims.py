"""Persistent volume claims of a pod, as far as they decide where it may run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kubewright.api.resource import Object, Resource
from kubewright.local.controllers.scheduler.filters import matches_terms
from kubewright.local.controllers.scheduler.pod_info import NodeInfo

STORAGE_CLASS = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
PERSISTENT_VOLUME = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Claims(msgspec.Struct, frozen=True):
    """What a pod's claims say.

    `message` says why the pod cannot be placed at all; `unbound` are claims that are bound only
    once a node is selected; `volumes` are those bound already, which may be tied to nodes.
    """

    message: str = ""
    unbound: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()


def claim_names(pod: Object) -> list[str]:
    """Return the names of the claims that a pod mounts."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return names


def read_claims(
    pod: Object,
    find_claim: Callable[[str], Object | None],
    find_class: Callable[[str], Object | None],
    find_volume: Callable[[str], Object | None],
) -> Claims:
    """Sort a pod's claims by what they mean for its placement."""
    unbound, volumes = [], []
    for name in claim_names(pod):
        claim = find_claim(name)
        if claim is None:
            # The doubled words are the scheduler's own.
            text = f'persistentvolumeclaim "{name}" not found'
            return Claims(f"{text}. not found")
        spec = claim["spec"]
        if spec.get("volumeName"):
            volume = find_volume(spec["volumeName"])
            volumes += [volume] if volume is not None else []
        elif _waits_for_consumer(find_class(spec.get("storageClassName") or "")):
            unbound.append(claim)
        else:
            return Claims("pod has unbound immediate PersistentVolumeClaims. not found")
    return Claims("", tuple(unbound), tuple(volumes))


def _waits_for_consumer(storage_class: Object | None) -> bool:
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def is_reachable(volumes: Iterable[Object], node: NodeInfo) -> bool:
    """Tell whether all volumes can be used on a node."""
    for volume in volumes:
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required and not matches_terms(required.get("nodeSelectorTerms") or (), node):
            return False
    return True
