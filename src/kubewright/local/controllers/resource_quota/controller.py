"""The resource quota controller: count, write, look again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.store import Store
from kubewright.client.clock import Clock
from kubewright.local.controllers.resource_quota.counted_resources import (
    REDISCOVERY_SECONDS,
    WHOLE,
    CountedResources,
    find_uncounted,
)
from kubewright.local.controllers.resource_quota.status import (
    build_status,
    count_usage,
    gives_back,
    hard_of,
    is_same_status,
    is_settled,
    next_release,
)
from kubewright.local.quota.usage import Usage, names_counted
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "resourcequota-controller"
RESOURCE_QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")

_RESYNC = timedelta(minutes=5)
# Stores follow the server by less than this: what a count missed is there at the next look.
_SECOND_LOOK = timedelta(seconds=5)


def build_resource_quota_controller(clock: Clock) -> Controller:
    """Build the controller that writes what quotas limit and what is used of it.

    Admission counts what is added; this controller counts all when a limit changes, and when
    something is given back. A store may be behind what admission has counted already, so every
    write is looked at once more, and every quota each five minutes.
    """
    reconciler = _Reconciler(clock)
    controller = Controller(
        NAME,
        RESOURCE_QUOTA,
        reconciler.reconcile,
        watches=[
            Watch(
                resource,
                reconciler.quotas_of,
                changes=reconciler.gives_back,
                is_start_known=True,
            )
            for resource in WHOLE
        ],
        setup=reconciler.set_up,
        resync=_RESYNC,
        changes=_changes_limits,
    )
    reconciler.controller = controller
    return controller


def _changes_limits(change: Change) -> bool:
    """Let through what changes the limits: usage is written by admission with every object."""
    if change.old is None or change.type is not ChangeType.MODIFIED:
        return True
    quota = change.entry.object()
    return not is_settled(quota) or change.old.object().get("spec") != quota.get("spec")


class _Reconciler:
    """Reconciles quotas; it remembers the stores of what they count."""

    controller: Controller

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quotas: Store | None = None
        self._counted = CountedResources(self._on_change)

    def set_up(self, cache: Cache) -> None:
        self._quotas = cache.store(RESOURCE_QUOTA)

    def quotas_of(self, entry: Entry) -> Iterable[NamespacedName]:
        """Return the quotas that count objects of the entry's resource, in its namespace."""
        return [
            quota.key
            for quota in self._in_namespace(entry)
            if names_counted(entry.resource, hard_of(quota.object()))
        ]

    def gives_back(self, change: Change) -> bool:
        """Tell whether a change may free something that a quota counts."""
        if not self._in_namespace(change.entry) or change.type is ChangeType.ADDED:
            return False
        if change.type is ChangeType.DELETED or change.old is None:
            return True
        old, new = change.old.object(), change.entry.object()
        return gives_back(change.entry.resource, old, new, self._clock.now())

    def _in_namespace(self, entry: Entry) -> Iterable[Entry]:
        if self._quotas is None:
            return ()
        return self._quotas.list(namespace=entry.meta.namespace)

    def _on_change(self, resource: Resource, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            for key in self.quotas_of(change.entry):
                self.controller.enqueue(key)

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Count what a namespace uses of one quota and write it."""
        quota = ctx.get(RESOURCE_QUOTA, key)
        if quota is None:
            return None
        hard = hard_of(quota)
        resources = await self._counted.find(ctx, hard)
        usage, failure = await self._count(ctx, quota, resources)
        status = build_status(quota, usage)
        wrote = not is_same_status(status, quota.get("status") or {})
        if wrote:
            await ctx.replace({**quota, "status": status}, subresource="status")
        if failure is not None:
            raise failure
        waits = [_SECOND_LOOK] if wrote else []
        if find_uncounted(hard, resources):
            waits.append(timedelta(seconds=REDISCOVERY_SECONDS))
        if builtin.POD in resources and (wait := _next_release(ctx, key.namespace)):
            waits.append(wait)
        return Result(after=min(waits)) if waits else None

    async def _count(
        self, ctx: Context, quota: Object, resources: Iterable[Resource]
    ) -> tuple[Usage, KubewrightError | None]:
        """Count each resource; one that cannot be read must not keep the others from it."""
        namespace, now = quota["metadata"]["namespace"], ctx.clock.now()
        usage: Usage = {}
        failure: KubewrightError | None = None
        for resource in resources:
            try:
                store = await self._counted.open(ctx, resource)
            except KubewrightError as error:
                failure = error
                continue
            objects = (entry.object() for entry in store.list(namespace=namespace))
            usage |= count_usage(quota, resource, objects, now)
        return usage, failure


def _next_release(ctx: Context, namespace: str) -> timedelta | None:
    store = ctx.store(builtin.POD)
    ending = (e.object() for e in store.list(namespace=namespace) if e.meta.is_deleting)
    wait = next_release(ending, ctx.clock.now())
    # At the deadline itself the pod still counts.
    return None if wait is None else wait + timedelta(seconds=1)
