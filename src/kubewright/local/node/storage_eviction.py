"""Whether a pod uses more local storage than it may: what the kubelet evicts it for."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.volumes import Volume

CHECK_SECONDS = 10.0
"""As often as the kubelet looks."""

EVICTED = "Evicted"
_STORAGE = "ephemeral-storage"
BLOCK = 512


def is_limited(pod: Object) -> bool:
    """Tell whether anything limits the local storage of a pod."""
    return bool(_volume_limits(pod) or _container_limits(pod))


def find_excess(pod: Object, volumes: Mapping[str, int], containers: Mapping[str, int]) -> str:
    """Return the message that the pod is evicted with; "" while it keeps to its limits.

    `volumes` are the bytes in each emptyDir, `containers` those in the writable layer and in the
    logs of each container. As the kubelet, volumes go first, then the pod, then its containers.
    """
    for name, limit in _volume_limits(pod).items():
        if volumes.get(name, 0) > limit.value:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    limits = _container_limits(pod)
    total = _sum(limits.values())
    used = sum(volumes.values()) + sum(containers.values())
    if total is not None and used > total.value:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    for name, limit in limits.items():
        if containers.get(name, 0) > limit.value:
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def _volume_limits(pod: Object) -> dict[str, Quantity]:
    limits = {}
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit and Quantity(limit).value > 0:
            limits[volume["name"]] = Quantity(limit)
    return limits


def _container_limits(pod: Object) -> dict[str, Quantity]:
    limits = {}
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*spec["containers"], *sidecars]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get(_STORAGE)
        if limit and Quantity(limit).value > 0:
            limits[container["name"]] = Quantity(limit)
    return limits


def _sum(amounts: Iterable[Quantity]) -> Quantity | None:
    """Sum amounts, in the notation of the first."""
    total: Quantity | None = None
    for amount in amounts:
        if total is None:
            total = Quantity(str(amount))
        else:
            total.value += amount.value
    return total


class StorageWatch:
    """Looks now and then whether a pod keeps to its limits of local storage."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self.due = 0.0

    async def find_excess(
        self, pod: Object, records: Iterable[ContainerRecord], volumes: Mapping[str, Volume]
    ) -> str:
        """Return the message that a pod is to be evicted with; "" while it keeps to its limits."""
        clock = self._context.clock
        if not is_limited(pod) or clock.monotonic() < self.due:
            return ""
        self.due = clock.monotonic() + CHECK_SECONDS
        folders = {
            volume["name"]: volumes[volume["name"]].reached
            for volume in pod["spec"].get("volumes") or ()
            if "emptyDir" in volume and volume["name"] in volumes
        }
        layers = {
            record.name: (
                self._context.runtime.layer(record.container),
                record.container.config.log,
            )
            for record in records
            if record.container is not None
        }

        def look() -> str:
            used = {name: measure(folder) for name, folder in folders.items()}
            written = {name: measure(layer) + measure(log) for name, (layer, log) in layers.items()}
            return find_excess(pod, used, written)

        return await asyncio.to_thread(look)


def measure(folder: Path) -> int:
    """Return the bytes that a file or folder takes; what has two names counts once.

    Other file systems that are mounted there do not count, nor what vanishes meanwhile.
    """
    seen: set[tuple[int, int]] = set()
    try:
        found = folder.lstat()
    except OSError:
        return 0
    device, total = found.st_dev, found.st_blocks * BLOCK
    if not stat.S_ISDIR(found.st_mode):
        return total
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_dev != device:
                continue
            key = (found.st_dev, found.st_ino)
            if key not in seen:
                seen.add(key)
                total += found.st_blocks * BLOCK
            if stat.S_ISDIR(found.st_mode):
                pending.append(Path(entry.path))
    return total
