"""Setting up the volumes of a pod, and taking them down."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubewright.api.builtin import SERVICE_ACCOUNT
from kubewright.api.resource import Object
from kubewright.client.objects import decode_object
from kubewright.local.node.claimed_volume import find_claimed_volume, names_claim
from kubewright.local.node.environment import References
from kubewright.local.node.host_path import MountError, check_host_path
from kubewright.local.node.image.image import ImageError
from kubewright.local.node.image.reference import InvalidReference
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.volume_writer import give_group, make_empty, write_files
from kubewright.local.node.volumes import Volume, memory_size, plan_files

TOKEN_SECONDS = 3600
RENEW_AT = 0.8
"""The part of a token's life after which it is replaced, as the kubelet does."""


def is_secret(volume: Object) -> bool:
    """Tell whether a volume's files must be kept in memory."""
    if "secret" in volume:
        return True
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any("secret" in source or "serviceAccountToken" in source for source in sources)


class PodVolumes:
    """The volumes of one pod, under the pod's folder."""

    def __init__(self, context: NodeContext, uid: str) -> None:
        self._context = context
        self._folder = context.pod_folder(uid) / "volumes"
        self._ready: dict[str, Volume] = {}
        self._tokens: dict[tuple[str, int], tuple[str, float]] = {}

    @property
    def ready(self) -> Mapping[str, Volume]:
        """The volumes that are set up, by name."""
        return self._ready

    async def refresh(self, pod: Object, references: References) -> None:
        """Write anew what the API fills and what has changed there; what is missing stays.

        Raises:
            MountError: a ConfigMap, a Secret or a key is gone.
        """
        for volume in pod["spec"].get("volumes") or ():
            ready = self._ready.get(volume["name"])
            if ready is not None and ready.is_written:
                await self._set_up(pod, volume, references)

    @property
    def is_written(self) -> bool:
        """Tell whether there are volumes that `refresh` would look after."""
        return any(volume.is_written for volume in self._ready.values())

    async def set_up(self, pod: Object, references: References) -> None:
        """Set up what is not set up yet.

        Raises:
            MountError: one cannot be set up, worded as the kubelet's FailedMount event.
        """
        for volume in pod["spec"].get("volumes") or ():
            name = volume["name"]
            if name in self._ready:
                continue
            if names_claim(volume):
                self._ready[name] = await self._set_up_claim(pod, volume)
                continue
            try:
                self._ready[name] = await self._set_up(pod, volume, references)
            except (MountError, OSError) as error:
                raise MountError(
                    f'MountVolume.SetUp failed for volume "{name}" : {error}'
                ) from error

    async def _set_up(self, pod: Object, volume: Object, references: References) -> Volume:
        folder = self._folder / volume["name"]
        group = self._group(pod)
        if "emptyDir" in volume:
            return await self._set_up_empty(pod, folder, volume["emptyDir"] or {}, group)
        if "image" in volume:
            return await self._set_up_image(volume["image"])
        if "hostPath" in volume:
            return Volume(await asyncio.to_thread(check_host_path, volume["hostPath"]))
        tokens = await self._fetch_tokens(pod, volume)
        files = plan_files(pod, volume, references, tokens, self._context.node())
        if files is None:
            kinds = ", ".join(key for key in volume if key != "name")
            raise MountError(
                f"local nodes have no {kinds} volumes: use emptyDir, configMap, secret, "
                "projected, downwardAPI, hostPath or a claim of a local volume"
            )
        runtime, now = self._context.runtime, self._context.clock.now()
        inside = folder
        if is_secret(volume):
            inside = runtime.inside_path(folder)
            if volume["name"] not in self._ready:
                await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
                await runtime.mount_memory(folder, None)
        await asyncio.to_thread(write_files, inside, files, now, group)
        return Volume(folder, read_only=True, is_written=True, agent_path=inside)

    def _group(self, pod: Object) -> int | None:
        """Return the fsGroup; an ordinary user has no other group to give."""
        group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        return None if self._context.runtime.is_one_uid else group

    async def _set_up_empty(
        self, pod: Object, folder: Path, source: Object, group: int | None
    ) -> Volume:
        await asyncio.to_thread(make_empty, folder)
        volume = Volume(folder)
        medium = source.get("medium") or ""
        if medium == "Memory":
            runtime = self._context.runtime
            await runtime.mount_memory(folder, memory_size(pod, source))
            volume = Volume(folder, agent_path=runtime.inside_path(folder))
        elif medium:
            raise MountError(f"local nodes have no emptyDir of medium {medium}")
        if group is not None:
            await asyncio.to_thread(give_group, volume.reached, group)
        return volume

    async def _set_up_image(self, source: Object) -> Volume:
        """Give the root file system of an image as a volume (KEP-4639)."""
        name, runtime = source["reference"], self._context.runtime
        try:
            image = await runtime.find_image(name)
            if image is None and source.get("pullPolicy") == "Never":
                raise MountError(
                    f'Container image "{name}" is not present with pull policy of Never'
                )
            image = image or await runtime.pull_image(name)
        except (ImageError, InvalidReference) as error:
            raise MountError(f'Failed to pull image "{name}": {error}') from error
        if image.root is None:
            raise MountError(
                f'image "{name}" has no files of its own here: the machine serves its packages'
            )
        return Volume(image.root, read_only=True)

    async def _set_up_claim(self, pod: Object, volume: Object) -> Volume:
        found = await find_claimed_volume(self._context.client, pod, volume)
        group = self._group(pod)
        if found.takes_group and group is not None and not found.read_only:
            policy = pod["spec"]["securityContext"].get("fsGroupChangePolicy")
            once = policy == "OnRootMismatch"
            try:
                await asyncio.to_thread(give_group, found.path, group, only_on_mismatch=once)
            except OSError as error:
                raise MountError(
                    f'MountVolume.SetUp failed for volume "{found.name}" : '
                    f"applyFSGroup failed for vol {found.name}: {error}"
                ) from error
        return Volume(found.path, read_only=found.read_only)

    async def _fetch_tokens(self, pod: Object, volume: Object) -> dict[int, str]:
        sources = (volume.get("projected") or {}).get("sources") or ()
        tokens = {}
        for number, source in enumerate(sources):
            if "serviceAccountToken" not in source:
                continue
            key, now = (volume["name"], number), self._context.clock.monotonic()
            token, renew_at = self._tokens.get(key, ("", now))
            if now >= renew_at:
                token = await self._fetch_token(pod, source["serviceAccountToken"])
                seconds = source["serviceAccountToken"].get("expirationSeconds") or TOKEN_SECONDS
                self._tokens[key] = (token, now + RENEW_AT * seconds)
            tokens[number] = token
        return tokens

    async def _fetch_token(self, pod: Object, source: Object) -> str:
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        path = SERVICE_ACCOUNT.path(account, namespace=metadata["namespace"], subresource="token")
        spec: dict[str, Any] = {
            "expirationSeconds": source.get("expirationSeconds") or TOKEN_SECONDS,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": spec,
        }
        answer = await self._context.client.request("POST", path, body=request)
        token: str = decode_object(answer)["status"]["token"]
        return token

    async def tear_down(self) -> None:
        """Remove what the agent made; what hostPath and claims name stays."""
        self._ready.clear()
        await asyncio.to_thread(shutil.rmtree, self._folder.parent, ignore_errors=True)
