"""The volume behind a claim that a pod mounts: found by way of the API, checked on the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from kubewright.api.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from kubewright.api.errors import NotFound
from kubewright.api.metadata import controller_of
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.local.node.host_path import MountError, check_host_path
from kubewright.local.storage.claim import phase_of


class ClaimedVolume(msgspec.Struct, frozen=True):
    """Where a claimed volume is. `takes_group` says that fsGroup applies: not to a hostPath."""

    name: str
    path: Path
    read_only: bool
    takes_group: bool


def names_claim(volume: Object) -> bool:
    """Tell whether a pod's volume is a claim, given or made for the pod."""
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


async def find_claimed_volume(client: Client, pod: Object, volume: Object) -> ClaimedVolume:
    """Find what a pod's claim is bound to.

    Raises:
        MountError: it cannot be mounted; worded in full as the kubelet's FailedMount event.
    """
    claim = await _read_claim(client, pod, volume)
    found = await _read_volume(client, claim)
    source = volume.get("persistentVolumeClaim") or {}
    path = await asyncio.to_thread(_locate, found)
    read_only = bool(source.get("readOnly"))
    return ClaimedVolume(found["metadata"]["name"], path, read_only, "local" in found["spec"])


async def _read_claim(client: Client, pod: Object, volume: Object) -> Object:
    namespace, is_own = pod["metadata"].get("namespace"), "ephemeral" in volume
    own_name = f"{pod['metadata']['name']}-{volume['name']}"
    name = own_name if is_own else volume["persistentVolumeClaim"]["claimName"]
    failed = f"error processing PVC {namespace}/{name}"
    try:
        claim = await client.get(PERSISTENT_VOLUME_CLAIM, name, namespace=namespace)
    except NotFound as error:
        raise MountError(f"{failed}: failed to fetch PVC from API server: {error}") from None
    owner = controller_of(claim)
    if is_own and (owner is None or owner["uid"] != pod["metadata"]["uid"]):
        holder = pod["metadata"]["name"]
        raise MountError(
            f"PVC {namespace}/{name} was not created for pod {namespace}/{holder} "
            "(pod is not owner)"
        )
    # A pod that runs already keeps its claim until it ends.
    if claim["metadata"].get("deletionTimestamp") and phase_of(pod) in ("", "Pending"):
        raise MountError(f"{failed}: PVC is being deleted")
    if phase_of(claim) != "Bound" or not claim["spec"].get("volumeName"):
        raise MountError(f"{failed}: PVC is not bound")
    return claim


async def _read_volume(client: Client, claim: Object) -> Object:
    metadata, name = claim["metadata"], claim["spec"]["volumeName"]
    failed = f"error processing PVC {metadata['namespace']}/{metadata['name']}"
    try:
        volume = await client.get(PERSISTENT_VOLUME, name)
    except NotFound as error:
        raise MountError(f"{failed}: failed to fetch PV {name} from API server: {error}") from None
    reference = volume["spec"].get("claimRef") or {}
    if reference.get("uid") != metadata["uid"]:
        raise MountError(f"{failed}: PV {name} is bound to another claim")
    return volume


def _locate(volume: Object) -> Path:
    """Return the folder of a volume. One that was made for a claim is never made anew here.

    A database that finds nothing where its data was would begin again from nothing.
    """
    name, spec = volume["metadata"]["name"], volume["spec"]
    if "local" in spec:
        path = Path(spec["local"]["path"])
        if not path.exists():
            raise MountError(
                f'MountVolume.NewMounter initialization failed for volume "{name}" : '
                f'path "{path}" does not exist'
            )
        return path
    if "hostPath" not in spec:
        raise MountError(f"local nodes have local and hostPath volumes; {name} is neither")
    try:
        return check_host_path(spec["hostPath"])
    except MountError as error:
        raise MountError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
