"""The disruption controller: read, calculate, write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from kubewright.api import builtin
from kubewright.api.errors import Conflict, KubewrightError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.disruption.budget import (
    build_expectation,
    build_failed_status,
    build_status,
    count_healthy,
    needs_scale,
    plan_disruptions,
)
from kubewright.local.controllers.disruption.controller_scale import (
    ScaleUnknown,
    read_expected_scale,
)
from kubewright.local.controllers.disruption.stale_target import build_stale_target_controller
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.selector_text import format_selector
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch, generation_changed

NAME = "disruption-controller"

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a "
    "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
    'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
    "integer value."
)
_WORKLOADS = (builtin.REPLICA_SET, builtin.DEPLOYMENT, builtin.STATEFUL_SET)


def build_disruption_controllers(recorder: EventRecorder) -> list[Controller]:
    """Build the controllers that keep the status of budgets and clear stale announcements.

    Guarantee: `disruptionsAllowed` never counts a pod that the eviction API announced to delete.
    The status is written at the version that was read, so that an eviction in between is a
    Conflict and not forgotten. What cannot be calculated allows nothing.
    """
    protectors = _Protectors()
    reconciler = _Reconciler()
    budgets = Controller(
        NAME,
        builtin.POD_DISRUPTION_BUDGET,
        with_recorder(reconciler.reconcile, recorder),
        watches=[
            Watch(builtin.POD, protectors.of_pod, is_start_known=True),
            *(_watch_workloads(resource, protectors) for resource in _WORKLOADS),
        ],
        setup=protectors.set_up,
    )
    return [budgets, build_stale_target_controller()]


def _watch_workloads(resource: Resource, protectors: _Protectors) -> Watch:
    # A scale that is read before the store has it would stand until the next change of a pod.
    return Watch(resource, protectors.of_workload, changes=generation_changed, is_start_known=True)


class _Protectors:
    """The budgets that a pod, or the pods of a workload, are counted in."""

    def __init__(self) -> None:
        self._store: Store | None = None

    def set_up(self, cache: Cache) -> None:
        self._store = cache.store(builtin.POD_DISRUPTION_BUDGET)

    def of_pod(self, pod: Entry) -> Iterable[NamespacedName]:
        return self._of_labels(pod.meta.namespace, pod.meta.labels)

    def of_workload(self, workload: Entry) -> Iterable[NamespacedName]:
        if not self._among(workload.meta.namespace):
            return ()
        template = (workload.object().get("spec") or {}).get("template") or {}
        labels = (template.get("metadata") or {}).get("labels")
        return self._of_labels(workload.meta.namespace, labels)

    def _among(self, namespace: str) -> Sequence[Entry]:
        return () if self._store is None else self._store.list(namespace=namespace)

    def _of_labels(self, namespace: str, labels: dict[str, str] | None) -> Iterable[NamespacedName]:
        return [entry.key for entry in self._among(namespace) if _selects(entry.object(), labels)]


def _selects(budget: Object, labels: dict[str, str] | None) -> bool:
    return LabelSelector.of((budget.get("spec") or {}).get("selector")).matches(labels)


class _Reconciler:
    """Reconciles budgets; what it remembers only keeps Events from being repeated."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, ...]] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        budget = ctx.get(builtin.POD_DISRUPTION_BUDGET, key)
        if budget is None:
            return None
        selector = LabelSelector.of((budget.get("spec") or {}).get("selector"))
        pods = [
            entry.object()
            for entry in ctx.store(builtin.POD).list(namespace=key.namespace)
            if selector.matches(entry.meta.labels)
        ]
        self._tell_rivals(ctx, budget, pods)
        if not pods:
            ctx.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        try:
            return await _calculate(ctx, budget, pods)
        except Conflict:
            raise
        except KubewrightError as error:
            await _fail(ctx, budget, error)
            if isinstance(error, ScaleUnknown):
                return None
            raise

    def _tell_rivals(self, ctx: Context, budget: Object, pods: Sequence[Object]) -> None:
        """Report pods that several budgets select, once for each pod and set of budgets."""
        namespace = budget["metadata"]["namespace"]
        store = ctx.store(builtin.POD_DISRUPTION_BUDGET)
        budgets = [entry.object() for entry in store.list(namespace=namespace)]
        if len(budgets) < 2:
            return
        for pod in pods:
            metadata = pod["metadata"]
            names = tuple(
                sorted(b["metadata"]["name"] for b in budgets if _selects(b, metadata["labels"]))
            )
            if len(names) < 2 or self._told.get(metadata["uid"]) == names:
                continue
            self._told[metadata["uid"]] = names
            while len(self._told) > 10_000:
                del self._told[next(iter(self._told))]
            note = (
                f'Pod "{namespace}"/"{metadata["name"]}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{names[0]}" arbitrarily.'
            )
            ctx.recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", note)


async def _calculate(ctx: Context, budget: Object, pods: Sequence[Object]) -> Result | None:
    expected = len(pods)
    if needs_scale(budget):
        try:
            scale = await read_expected_scale(ctx, pods)
        except KubewrightError as error:
            note = f"Failed to calculate the number of expected pods: {error}"
            ctx.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", note)
            raise
        expected = scale.count
        if scale.unmanaged:
            note = _UNMANAGED.format(format_selector(budget["spec"].get("selector")))
            ctx.recorder.event(budget, "Warning", "UnmanagedPods", note)
    now = ctx.clock.now()
    disruptions = plan_disruptions(budget, pods, now)
    for pod in disruptions.survivors:
        # kube-controller-manager names the namespace twice, and no budget; tools match its words.
        namespace = budget["metadata"]["namespace"]
        note = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
        ctx.recorder.event(pod, "Warning", "NotDeleted", note)
    healthy = count_healthy(pods, disruptions.pending)
    expectation = build_expectation(budget, expected)
    status = build_status(budget, expectation, healthy, disruptions.pending, now)
    await _write(ctx, budget, status)
    if disruptions.recheck is None:
        return None
    # The end itself is still within the time: look again when it is past.
    return Result(after=disruptions.recheck - now + timedelta(seconds=1))


async def _fail(ctx: Context, budget: Object, error: KubewrightError) -> None:
    await _write(ctx, budget, build_failed_status(budget, str(error), ctx.clock.now()))


async def _write(ctx: Context, budget: Object, status: Object) -> None:
    if status != (budget.get("status") or {}):
        await ctx.replace({**budget, "status": status}, subresource="status")
