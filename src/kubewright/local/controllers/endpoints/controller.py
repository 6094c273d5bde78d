"""The controllers of EndpointSlices and Endpoints: read, plan, write."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.errors import NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.local.controllers.endpoints.backend import (
    ENDPOINT_SLICE,
    ENDPOINTS,
    Backend,
    address_types,
    find_backends,
)
from kubewright.local.controllers.endpoints.slices import (
    CONTROLLER,
    MANAGED_BY,
    SlicePlan,
    plan_slices,
)
from kubewright.local.controllers.endpoints.subsets import (
    CONTROLLER as ENDPOINTS_CONTROLLER,
)
from kubewright.local.controllers.endpoints.subsets import (
    MANAGED_BY as ENDPOINTS_MANAGED_BY,
)
from kubewright.local.controllers.endpoints.subsets import build_endpoints, is_same_endpoints
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch, map_to_itself


def build_endpointslice_controller() -> Controller:
    """Build the controller that keeps the EndpointSlices of Services with selectors."""
    services = _SelectingServices()
    return Controller(
        "endpointslice-controller",
        builtin.SERVICE,
        reconcile_slices,
        owns=[ENDPOINT_SLICE],
        watches=[Watch(builtin.POD, services.of_pod)],
        reads=[builtin.NODE],
        setup=services.set_up,
    )


def build_endpoints_controller() -> Controller:
    """Build the controller that keeps the Endpoints of Services with selectors."""
    services = _SelectingServices()
    return Controller(
        "endpoints-controller",
        builtin.SERVICE,
        reconcile_endpoints,
        watches=[Watch(builtin.POD, services.of_pod), Watch(ENDPOINTS, map_to_itself)],
        setup=services.set_up,
    )


class _SelectingServices:
    """Finds the Services that select a pod."""

    def set_up(self, cache: Cache) -> None:
        self._store = cache.store(builtin.SERVICE)

    def of_pod(self, pod: Entry) -> Iterable[NamespacedName]:
        found = []
        for entry in self._store.list(namespace=pod.meta.namespace):
            selector = entry.object()["spec"].get("selector")
            if selector and LabelSelector.of_labels(selector).matches(pod.meta.labels):
                found.append(entry.key)
        return found


async def reconcile_slices(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring the slices of one Service up to date; the garbage collector removes the last ones."""
    service = ctx.get(builtin.SERVICE, key)
    if service is None or not service["spec"].get("selector"):
        return None
    uid = service["metadata"]["uid"]
    owned = [
        obj
        for obj in ctx.list(ENDPOINT_SLICE, owner=uid)
        if (obj["metadata"].get("labels") or {}).get(MANAGED_BY) == CONTROLLER
    ]
    families = address_types(service)
    for family in families:
        existing = [obj for obj in owned if obj["addressType"] == family]
        plan = plan_slices(service, _find_backends(ctx, service, family), existing, family)
        await _apply_plan(ctx, plan)
    stale = [obj for obj in owned if obj["addressType"] not in families]
    await _apply_plan(ctx, SlicePlan(delete=stale))
    return None


def _find_backends(ctx: Context, service: Object, family: str) -> list[Backend]:
    namespace = service["metadata"]["namespace"]
    pods = ctx.list(builtin.POD, namespace=namespace, labels=service["spec"]["selector"])
    zones = {}
    if builtin.NODE in ctx.stores:
        zones = {e.meta.name: e.meta.labels or {} for e in ctx.store(builtin.NODE).list()}
    return find_backends(service, pods, family, zones)


async def _apply_plan(ctx: Context, plan: SlicePlan) -> None:
    try:
        for obj in plan.create:
            await ctx.create(obj)
        for obj in plan.update:
            await ctx.replace(obj)
    except NamespaceTerminating:
        return
    for obj in plan.delete:
        await _delete(ctx, obj)


async def reconcile_endpoints(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring the Endpoints of one Service up to date, or delete them with it."""
    service = ctx.get(builtin.SERVICE, key)
    before = ctx.get(ENDPOINTS, key)
    if service is None:
        if before is not None and _is_managed(before):
            await _delete(ctx, before)
        return None
    if not service["spec"].get("selector"):
        return None
    backends = _find_backends(ctx, service, address_types(service)[0])
    wanted = build_endpoints(service, backends, before)
    try:
        if before is None:
            await ctx.create(wanted)
        elif not is_same_endpoints(before, wanted):
            await ctx.replace(wanted)
    except NamespaceTerminating:
        return None
    return None


def _is_managed(endpoints: Object) -> bool:
    labels = endpoints["metadata"].get("labels") or {}
    return bool(labels.get(ENDPOINTS_MANAGED_BY) == ENDPOINTS_CONTROLLER)


async def _delete(ctx: Context, obj: Object) -> None:
    resource = ENDPOINTS if obj["kind"] == "Endpoints" else ENDPOINT_SLICE
    try:
        await ctx.delete(resource, NamespacedName.of(obj), uid=obj["metadata"]["uid"])
    except NotFound:
        return
