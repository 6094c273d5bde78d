"""The controllers of EndpointSlices and Endpoints: read, plan, write."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.errors import NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.local.controllers.endpoints.backend import (
    ENDPOINT_SLICE,
    ENDPOINTS,
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
from kubewright.local.controllers.pod_views import PodViews
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch, labels_changed, map_to_itself

_BY_NODE = "kubewright/endpoints/node"


def build_endpointslice_controller(views: PodViews) -> Controller:
    """Build the controller that keeps the EndpointSlices of Services with selectors."""
    services = _Services(views)
    reconciler = SliceReconciler(services)
    return Controller(
        "endpointslice-controller",
        builtin.SERVICE,
        reconciler.reconcile,
        owns=[ENDPOINT_SLICE],
        watches=[
            Watch(builtin.POD, services.of_pod),
            Watch(builtin.NODE, services.of_node, changes=labels_changed, is_start_known=True),
        ],
        setup=services.set_up_nodes,
    )


def build_endpoints_controller(views: PodViews) -> Controller:
    """Build the controller that keeps the Endpoints of Services with selectors."""
    services = _Services(views)
    return Controller(
        "endpoints-controller",
        builtin.SERVICE,
        EndpointsReconciler(services).reconcile,
        watches=[Watch(builtin.POD, services.of_pod), Watch(ENDPOINTS, map_to_itself)],
        setup=services.set_up,
    )


def is_selecting(service: Object) -> bool:
    """Tell whether a Service has endpoints by its selector; an ExternalName has none."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


class _Services:
    """Finds the Services that select a pod, and the pods that a Service selects."""

    def __init__(self, views: PodViews) -> None:
        self.views = views
        self._selectors: dict[str, dict[NamespacedName, LabelSelector]] = {}

    def set_up(self, cache: Cache) -> None:
        self.views.set_up(cache)
        self._pods = cache.store(builtin.POD)
        store = cache.store(builtin.SERVICE)
        store.subscribe(self._on_service)
        for entry in store.list():
            self._on_service(Change(ChangeType.ADDED, entry))

    def set_up_nodes(self, cache: Cache) -> None:
        """Set up for who also asks which Services concern a node."""
        self.set_up(cache)
        self._pods.add_index(_BY_NODE, self._node_of)

    def _node_of(self, pod: Entry) -> Iterable[str]:
        name = self.views.of(pod)["spec"].get("nodeName")
        return (name,) if name else ()

    def _on_service(self, change: Change) -> None:
        key = change.entry.key
        known = self._selectors.setdefault(key.namespace, {})
        known.pop(key, None)
        if change.type is ChangeType.DELETED:
            if not known:
                del self._selectors[key.namespace]
            return
        service = change.entry.object()
        if is_selecting(service):
            known[key] = LabelSelector.of_labels(service["spec"]["selector"])

    def of_pod(self, pod: Entry) -> Iterable[NamespacedName]:
        """Return the Services that select a pod."""
        selectors = self._selectors.get(pod.meta.namespace, {})
        return [key for key, selector in selectors.items() if selector.matches(pod.meta.labels)]

    def of_node(self, node: Entry) -> Iterable[NamespacedName]:
        """Return the Services that select a pod on a node."""
        pods = self._pods.by_index(_BY_NODE, node.meta.name)
        return {key for pod in pods for key in self.of_pod(pod)}

    def pods_of(self, service: Object) -> list[Object]:
        """Return the pods that a Service selects."""
        entries = self._pods.list(
            namespace=service["metadata"]["namespace"], labels=service["spec"]["selector"]
        )
        return [self.views.of(entry) for entry in entries]


class SliceReconciler:
    """Keeps the slices of Services."""

    def __init__(self, services: _Services) -> None:
        self._services = services

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring the slices of one Service up to date; the garbage collector removes the last."""
        service = ctx.get(builtin.SERVICE, key)
        if service is None or not is_selecting(service):
            return None
        uid = service["metadata"]["uid"]
        owned = [
            obj
            for obj in ctx.list(ENDPOINT_SLICE, owner=uid)
            if (obj["metadata"].get("labels") or {}).get(MANAGED_BY) == CONTROLLER
        ]
        nodes = {e.meta.name: e.meta.labels or {} for e in ctx.store(builtin.NODE).list()}
        pods = self._services.pods_of(service)
        families = address_types(service)
        for family in families:
            existing = [obj for obj in owned if obj["addressType"] == family]
            backends = find_backends(service, pods, family, nodes)
            await _apply_plan(ctx, plan_slices(service, backends, existing, family))
        stale = [obj for obj in owned if obj["addressType"] not in families]
        await _apply_plan(ctx, SlicePlan(delete=stale))
        return None


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


class EndpointsReconciler:
    """Keeps the Endpoints of Services."""

    def __init__(self, services: _Services) -> None:
        self._services = services

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring the Endpoints of one Service up to date, or delete them with it."""
        service = ctx.get(builtin.SERVICE, key)
        before = ctx.get(ENDPOINTS, key)
        if service is None:
            if before is not None and _is_managed(before):
                await _delete(ctx, before)
            return None
        if not is_selecting(service):
            return None
        pods = self._services.pods_of(service)
        backends = find_backends(service, pods, address_types(service)[0])
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
