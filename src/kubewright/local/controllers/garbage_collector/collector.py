"""The garbage collector: follow all metadata, look at suspects, ask, then delete."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import Conflict, KubewrightError, NotFound
from kubewright.api.metadata import ObjectMeta, OwnerReference, decode_metadata
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object, Resource
from kubewright.cache.entry import Change, ChangeType
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.local.controllers.discovery import discover
from kubewright.local.controllers.garbage_collector.decision import (
    Delete,
    DropReferences,
    OwnerState,
    build_finalizer_patch,
    build_references_patch,
    plan_collection,
)
from kubewright.local.controllers.garbage_collector.graph import (
    FOREGROUND,
    ORPHAN,
    Node,
    OwnerGraph,
)
from kubewright.local.controllers.garbage_collector.monitors import Monitors
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.context import Environment
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.queue import WorkQueue

NAME = "garbage-collector-controller"

_WORKERS = 8
_DISCOVERY_PERIOD = timedelta(seconds=30)
# A CRD's change comes before the API server serves what it says: look again a little later.
_CRD_DELAYS = (0.2, 1.0, 5.0)

_logger = logging.getLogger(__name__)


class NotYet(KubewrightError):
    """What a decision needs is not known yet; it is tried again."""


class GarbageCollector:
    """Delete what has no owner left, and let go of what waits for its dependents.

    Flow: a monitor of metadata for each kind feeds the graph; the graph names suspects; a worker
    looks at each: it asks the API server for the object and for every owner that the graph does
    not have, and only then acts, on exactly the object that it read (UID and resource version).

    Guarantees: an object is never deleted on a cache's word. An owner whose kind is not served, or
    that cannot be read, counts as neither present nor absent: its dependents stay. Nothing is
    orphaned or finished in the foreground before every kind has been read whole.

    Source: KEP "Garbage Collection" (ownerReferences), API conventions.
    """

    def __init__(self, environment: Environment, recorder: EventRecorder) -> None:
        self._client: Client = environment.client
        self._clock = environment.clock
        self._recorder = recorder
        self._graph = OwnerGraph()
        self._queue: WorkQueue[str] = WorkQueue(environment.clock, environment.random)
        self._monitors = Monitors(
            self._client,
            clock=environment.clock,
            random=environment.random,
            on_change=self._on_change,
        )
        self._rediscover = Alarm(environment.clock)
        # UIDs are never used again, so what was absent once stays absent.
        self._absent: dict[tuple[str, ...], None] = {}

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(), name="garbage collector's queue")
            group.create_task(self._run_discovery(group), name="garbage collector's discovery")
            for _ in range(_WORKERS):
                group.create_task(self._work(), name="garbage collector's worker")

    async def _run_discovery(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                self._monitors.follow(await discover(self._client), group)
            except KubewrightError as error:
                _logger.warning("cannot discover what the server serves: %s", error)
            if not await self._rediscover.wait(_DISCOVERY_PERIOD.total_seconds()):
                continue
            for delay in _CRD_DELAYS:
                await self._clock.sleep(delay)
                try:
                    self._monitors.follow(await discover(self._client), group)
                except KubewrightError as error:
                    _logger.warning("cannot discover what the server serves: %s", error)

    def _on_change(self, resource: Resource, change: Change) -> None:
        if resource == builtin.CUSTOM_RESOURCE_DEFINITION:
            self._rediscover.set()
        if change.type is ChangeType.DELETED:
            suspects = self._graph.remove(change.entry.meta.uid)
        else:
            suspects = self._graph.put(Node(resource, change.entry.meta))
        for uid in suspects:
            self._queue.add(uid)

    async def _work(self) -> None:
        while (uid := await self._queue.get()) is not None:
            try:
                await self._look_at(uid)
            except KubewrightError as error:
                delay = self._queue.retry(uid)
                level = logging.DEBUG if isinstance(error, NotYet | Conflict) else logging.WARNING
                _logger.log(level, "%s: tried again in %.3f s: %s", uid, delay, error)
            except Exception:
                _logger.exception("%s: tried again in %.3f s", uid, self._queue.retry(uid))
            else:
                self._queue.forget(uid)
            finally:
                self._queue.done(uid)

    async def _look_at(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is None:
            return
        # Collection asks for each owner; the other two trust the graph to know all dependents.
        knows = self._monitors.is_synced if node.meta.is_deleting else self._monitors.is_usable
        if not knows:
            raise NotYet("not all kinds have been read")
        if node.leaves_orphans:
            await self._leave_orphans(node)
        elif node.waits_for_dependents:
            await self._delete_dependents(node)
        elif not node.meta.is_deleting:
            await self._collect(node)

    async def _leave_orphans(self, owner: Node) -> None:
        """Take the owner's reference off its dependents, then let it go."""
        for dependent in self._graph.dependents(owner.uid):
            remaining = tuple(ref for ref in dependent.owners if ref.uid != owner.uid)
            await self._patch(dependent, build_references_patch(dependent.meta, remaining))
        await self._drop_finalizer(owner, ORPHAN)

    async def _delete_dependents(self, owner: Node) -> None:
        """Have the dependents looked at; let the owner go when none blocks it any more."""
        dependents = self._graph.dependents(owner.uid)
        if not any(dependent.blocks(owner.uid) for dependent in dependents):
            await self._drop_finalizer(owner, FOREGROUND)
            return
        for dependent in dependents:
            if not dependent.meta.is_deleting:
                self._queue.add(dependent.uid)

    async def _drop_finalizer(self, node: Node, finalizer: str) -> None:
        live = await self._read(node)
        if live is not None and finalizer in (live.finalizers or ()):
            await self._patch(node, build_finalizer_patch(live, finalizer))

    async def _collect(self, node: Node) -> None:
        """Act on an object whose owners may be gone."""
        if not node.owners or await self._are_solid(node):
            return
        live = await self._read(node)
        if live is None or live.is_deleting:
            return
        current = Node(node.resource, live)
        states = {ref.uid: await self._state_of(current, ref) for ref in current.owners}
        dependents = self._graph.dependents(node.uid)
        decision = plan_collection(
            live,
            states,
            has_dependents=bool(dependents),
            in_circle=any(dependent.waits_for_dependents for dependent in dependents),
        )
        if isinstance(decision, DropReferences):
            await self._patch(node, build_references_patch(live, decision.remaining))
        elif isinstance(decision, Delete):
            if decision.unblock:
                live = await self._unblock(current)
            await self._delete(node, live, decision)

    async def _are_solid(self, node: Node) -> bool:
        return all([await self._state_of(node, ref) is OwnerState.SOLID for ref in node.owners])

    async def _state_of(self, node: Node, reference: OwnerReference) -> OwnerState:
        """Return the state of an owner: from the graph when it is there, else from the server.

        Raises:
            NotYet: it cannot be known.
        """
        owner = self._graph.get(reference.uid)
        if owner is not None and node.is_owned_by(owner, reference):
            return OwnerState.WAITING if owner.waits_for_dependents else OwnerState.SOLID
        if owner is not None and not node.may_be_owned_by(owner):
            self._tell_invalid(node, reference)
        coordinates = (reference.api_version, reference.kind, node.meta.namespace)
        key = (*coordinates, reference.name, reference.uid)
        if key in self._absent and node.resource.namespaced and owner is None:
            return OwnerState.ABSENT
        live = await self._find_owner(node, reference)
        if live is None:
            if owner is None:
                self._absent[key] = None
                while len(self._absent) > 10_000:
                    del self._absent[next(iter(self._absent))]
            return OwnerState.ABSENT
        waits = live.is_deleting and FOREGROUND in (live.finalizers or ())
        return OwnerState.WAITING if waits else OwnerState.SOLID

    async def _find_owner(self, node: Node, reference: OwnerReference) -> ObjectMeta | None:
        gvk = GroupVersionKind.parse(reference.api_version, reference.kind)
        resource = self._monitors.resource_of(gvk.group_kind)
        if resource is None:
            raise NotYet(f"its owner's kind {gvk.group_kind} is not served")
        if resource.namespaced and not node.resource.namespaced:
            raise NotYet("it is cluster-scoped, and its owner is not")
        live = await self._get(resource, NamespacedName(node.meta.namespace, reference.name))
        return live if live is not None and live.uid == reference.uid else None

    def _tell_invalid(self, node: Node, reference: OwnerReference) -> None:
        text = (
            f"ownerRef [{reference.api_version}/{reference.kind}, namespace: "
            f"{node.meta.namespace}, name: {reference.name}, uid: {reference.uid}] does not exist "
            f'in namespace "{node.meta.namespace}"'
        )
        regarding: Object = {
            "apiVersion": node.resource.api_version,
            "kind": node.resource.kind,
            "metadata": {
                "namespace": node.meta.namespace,
                "name": node.meta.name,
                "uid": node.uid,
            },
        }
        self._recorder.event(regarding, "Warning", "OwnerRefInvalidNamespace", text)

    async def _read(self, node: Node) -> ObjectMeta | None:
        """Read an object's metadata from the server; None when it is gone or another one."""
        live = await self._get(node.resource, node.meta.key)
        return live if live is not None and live.uid == node.uid else None

    async def _get(self, resource: Resource, key: NamespacedName) -> ObjectMeta | None:
        namespace = key.namespace if resource.namespaced else None
        try:
            return decode_metadata(
                await self._client.get_raw(resource, key.name, namespace=namespace)
            )
        except NotFound as error:
            # Without the object's name it is the path that is unknown: this version is no longer
            # served, which says nothing about the object.
            if error.details is None or error.details.name != key.name:
                raise NotYet(f"{resource} is not served any more") from error
            return None

    async def _patch(self, node: Node, patch: Object) -> None:
        try:
            await self._client.patch(
                node.resource,
                node.meta.name,
                patch,
                type=PatchType.MERGE,
                namespace=node.meta.namespace or None,
            )
        except NotFound:
            return

    async def _unblock(self, node: Node) -> ObjectMeta:
        """Make the object block none of its owners; return its metadata after that."""
        references = tuple(
            OwnerReference(r.api_version, r.kind, r.name, r.uid, r.controller, False)
            for r in node.owners
        )
        await self._patch(node, build_references_patch(node.meta, references))
        live = await self._read(node)
        if live is None:
            raise NotYet("it went while its references were changed")
        return live

    async def _delete(self, node: Node, live: ObjectMeta, decision: Delete) -> None:
        try:
            await self._client.delete(
                node.resource,
                live.name,
                namespace=live.namespace or None,
                uid=live.uid,
                resource_version=live.resource_version,
                propagation=decision.propagation,
            )
        except NotFound:
            return
