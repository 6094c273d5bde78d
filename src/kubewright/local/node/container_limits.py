"""Holding the containers of a node to their limits: by control groups, else by watching memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from kubewright.client.clock import Clock
from kubewright.local.node.cgroups import CgroupTree, ContainerGroup, open_tree
from kubewright.local.node.memory_watch import WATCH_SECONDS, read_memory
from kubewright.local.node.process import Process
from kubewright.local.node.resources import ContainerResources
from kubewright.local.node.runtime import RunningContainer, StartError


class ContainerLimits:
    """The limits of the running containers of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tree: CgroupTree | None = None
        self._groups: dict[str, ContainerGroup] = {}
        self._exhausted: set[str] = set()
        self._watches: dict[str, asyncio.Task[None]] = {}

    @property
    def are_enforced(self) -> bool:
        """Tell whether the kernel enforces them."""
        return self._tree is not None

    async def start(self, folder: Path, *, is_taken_over: bool = False) -> None:
        """Make the groups of the node with this folder, where the kernel allows it.

        Those of a node that is taken over stay as they are, with what runs in them.
        """
        self._tree = await asyncio.to_thread(open_tree, folder, is_taken_over=is_taken_over)

    async def adopt(self, process: Process, container: RunningContainer) -> None:
        """Go on holding a container that an earlier agent has started."""
        if self._tree is not None:
            self._groups[container.id] = await asyncio.to_thread(self._tree.find, container.id)
        self.watch(process, container)

    async def stop(self) -> None:
        """Remove the groups of the node. Its containers must have ended."""
        if self._tree is not None:
            await asyncio.to_thread(self._tree.remove)

    async def create(self, container_id: str, resources: ContainerResources) -> None:
        """Make the group that a container's processes are to be added to. Raises OSError."""
        if self._tree is not None:
            group = await asyncio.to_thread(self._tree.create, container_id, resources)
            self._groups[container_id] = group

    def find(self, container_id: str) -> ContainerGroup | None:
        """Return the group of a container; None where there are no groups."""
        return self._groups.get(container_id)

    def watch(self, process: Process, container: RunningContainer) -> None:
        """Kill a container that takes more memory than it may, where the kernel does not."""
        is_watched = container.id in self._watches
        if self._tree is None and container.config.resources.memory_limit and not is_watched:
            watch = asyncio.create_task(self._watch(process, container))
            self._watches[container.id] = watch

    async def _watch(self, process: Process, container: RunningContainer) -> None:
        while process.is_running:
            limit = container.config.resources.memory_limit
            if limit and await asyncio.to_thread(read_memory, process.pid) > limit:
                self._exhausted.add(container.id)
                process.kill()
                return
            await self._clock.sleep(WATCH_SECONDS)

    async def change(
        self, process: Process, container: RunningContainer, resources: ContainerResources
    ) -> None:
        """Hold a running container to other limits. Raises StartError with the kernel's reason."""
        group = self._groups.get(container.id)
        if group is not None:
            try:
                await asyncio.to_thread(group.limit, resources)
            except OSError as error:
                raise StartError(f"{error.strerror}: {error.filename}") from error
        container.config = msgspec.structs.replace(container.config, resources=resources)
        self.watch(process, container)

    async def remove(self, container_id: str) -> bool:
        """Forget a container that has ended; return whether it was killed for want of memory."""
        if watch := self._watches.pop(container_id, None):
            watch.cancel()
        is_oom = container_id in self._exhausted
        self._exhausted.discard(container_id)
        group = self._groups.pop(container_id, None)
        if group is not None:
            is_oom = await asyncio.to_thread(lambda: group.is_oom)
            await asyncio.to_thread(group.remove)
        return is_oom
