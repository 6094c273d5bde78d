"""The horizontal pod autoscaler: measure, calculate, scale, every 15 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.entry import Change, ChangeType
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import (
    read_behavior,
    read_tolerances,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.history import History
from kubewright.local.controllers.horizontal_pod_autoscaler.limits import (
    limit_by_behavior,
    limit_step,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.metric_source import (
    InvalidMetric,
    MetricSource,
    Proposal,
    Target,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.metrics_api import MetricsAPI
from kubewright.local.controllers.horizontal_pod_autoscaler.pod_samples import MetricUnavailable
from kubewright.local.controllers.horizontal_pod_autoscaler.scale_target import (
    ScaleTarget,
    TargetUnavailable,
    find_target,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.status import (
    ABLE_TO_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    AutoscalerStatus,
)
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.selector_query import parse_selector
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result

NAME = "horizontal-pod-autoscaler-controller"
AUTOSCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
PERIOD = timedelta(seconds=15)

_ABOVE = "Current number of replicas above Spec.MaxReplicas"
_BELOW = "Current number of replicas below Spec.MinReplicas"


def build_autoscaler_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that scales what autoscalers refer to.

    Guarantee: the replicas are changed only at the version that they were read at. What was
    recommended and done before lives in memory; a restart makes scaling down wait, never hasten.
    """
    reconciler = _Reconciler()
    return Controller(
        NAME,
        AUTOSCALER,
        with_recorder(reconciler.reconcile, recorder),
        reads=[builtin.POD],
        changes=_changes_spec,
    )


def _changes_spec(change: Change) -> bool:
    """Let through changes of the spec: each write of a status would else bring the next look."""
    if change.old is None or change.type is not ChangeType.MODIFIED:
        return True
    return bool(change.old.object()["spec"] != change.entry.object()["spec"])


class _Past(msgspec.Struct):
    """What is remembered of one autoscaler."""

    uid: str
    history: History = msgspec.field(default_factory=History)
    selector: LabelSelector | None = None


class _Round(msgspec.Struct, frozen=True):
    """One look at an autoscaler."""

    ctx: Context
    autoscaler: Object
    past: _Past
    target: ScaleTarget
    status: AutoscalerStatus

    @property
    def low(self) -> int:
        minimum = self.autoscaler["spec"].get("minReplicas")
        return 1 if minimum is None else int(minimum)

    @property
    def high(self) -> int:
        return int(self.autoscaler["spec"]["maxReplicas"])

    @property
    def wakes_from_zero(self) -> bool:
        """Tell whether a metric can be measured without any pod."""
        metrics = self.autoscaler["spec"].get("metrics") or ()
        return any(metric.get("type") in ("Object", "External") for metric in metrics)

    def warn(self, reason: str, note: str) -> None:
        self.ctx.recorder.event(self.autoscaler, "Warning", reason, note)


class _Decision(msgspec.Struct, frozen=True):
    """The replicas to have, why, and what was measured (None: nothing was)."""

    replicas: int
    reason: str = ""
    metrics: Sequence[Object] | None = None


class _Reconciler:
    """Reconciles autoscalers."""

    def __init__(self) -> None:
        self._pasts: dict[NamespacedName, _Past] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Look at one autoscaler; whatever comes of it, the next look is in 15 seconds."""
        autoscaler = ctx.get(AUTOSCALER, key)
        if autoscaler is None:
            self._pasts.pop(key, None)
            return None
        past = self._recall(key, autoscaler)
        status = AutoscalerStatus(autoscaler, ctx.clock.now())
        try:
            reference = autoscaler["spec"]["scaleTargetRef"]
            target = await find_target(ctx.client, key.namespace, reference)
        except TargetUnavailable as error:
            ctx.recorder.event(autoscaler, "Warning", "FailedGetScale", str(error))
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            status.set(ABLE_TO_SCALE, "False", "FailedGetScale", message)
        else:
            message = "the HPA controller was able to get the target's current scale"
            status.set(ABLE_TO_SCALE, "True", "SucceededGetScale", message)
            past.history.begin(target.wanted, ctx.clock.now())
            await self._autoscale(_Round(ctx, autoscaler, past, target, status))
        if (written := status.build()) is not None:
            await ctx.replace(written, subresource="status")
        return Result(after=PERIOD)

    def _recall(self, key: NamespacedName, autoscaler: Object) -> _Past:
        uid = autoscaler["metadata"]["uid"]
        past = self._pasts.get(key)
        if past is None or past.uid != uid:
            past = self._pasts[key] = _Past(uid)
        return past

    async def _autoscale(self, look: _Round) -> None:
        current = look.target.wanted
        try:
            decision = await self._decide(look)
        except _Undecided as undecided:
            look.status.finish(current, look.status.desired, undecided.metrics)
            look.warn("FailedComputeMetricsReplicas", str(undecided))
            return
        if decision.replicas == current:
            look.status.finish(current, current, decision.metrics)
            return
        await _rescale(look, decision)

    async def _decide(self, look: _Round) -> _Decision:
        """Decide how many replicas there should be.

        Raises:
            _Undecided: the metrics do not tell.
        """
        current = look.target.wanted
        if current == 0:
            woken = look.status.is_scaled_to_zero and (look.low != 0 or look.wakes_from_zero)
            if not woken:
                message = "scaling is disabled since the replica count of the target is zero"
                look.status.set(SCALING_ACTIVE, "False", "ScalingDisabled", message)
                return _Decision(0)
        elif current > look.high:
            return _Decision(look.high, _ABOVE)
        elif current < look.low:
            return _Decision(look.low, _BELOW)
        wish, metric, statuses = await self._evaluate(look)
        replicas = _normalize(look, wish)
        reason = ""
        if wish > current:
            reason = f"{metric} above target"
        elif wish < current:
            reason = "All metrics below target"
        if current == 0 and replicas < look.low:
            replicas, reason = look.low, reason or _BELOW
        return _Decision(replicas, reason, statuses)

    async def _evaluate(self, look: _Round) -> tuple[int, str, list[Object]]:
        """Evaluate all metrics; the one that asks for most replicas counts.

        A metric that cannot be had never leads to fewer replicas: it might have asked for more.
        """
        target = self._select_pods(look)
        source = MetricSource(
            MetricsAPI(look.ctx.client, target.namespace),
            target,
            read_tolerances(look.autoscaler),
            look.ctx.clock.now(),
        )
        statuses: list[Object] = []
        best: Proposal | None = None
        invalid: list[InvalidMetric] = []
        metrics = look.autoscaler["spec"].get("metrics") or ()
        for metric in metrics:
            try:
                proposal = await source.evaluate(metric)
            except InvalidMetric as error:
                look.warn(error.reason, error.cause)
                invalid.append(error)
                statuses.append({"type": ""})
                continue
            statuses.append(proposal.status)
            if best is None or best.replicas == 0 or proposal.replicas > best.replicas:
                best = proposal
        if invalid and (best is None or best.replicas < target.wanted):
            message = f"the HPA was unable to compute the replica count: {invalid[0].cause}"
            look.status.set(SCALING_ACTIVE, "False", invalid[0].reason, message)
            text = f"invalid metrics ({len(invalid)} invalid out of {len(metrics)}), "
            raise _Undecided(f"{text}first error is: {invalid[0]}", statuses)
        if best is None:
            raise _Undecided("no metrics are specified", statuses)
        message = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        look.status.set(SCALING_ACTIVE, "True", "ValidMetricFound", message)
        return best.replicas, best.metric, statuses

    def _select_pods(self, look: _Round) -> Target:
        """Find the pods of the target.

        Raises:
            _Undecided: it has no selector, or another autoscaler scales the same pods: the two
                would undo each other's work for ever.
        """
        text, key = look.target.selector, look.ctx.request
        if not text:
            look.warn("SelectorRequired", "selector is required")
            message = "the HPA target's scale is missing a selector"
            look.status.set(SCALING_ACTIVE, "False", "InvalidSelector", message)
            raise _Undecided("selector is required", None)
        try:
            selector = look.past.selector = parse_selector(text)
        except ValueError as error:
            message = (
                f"couldn't convert selector into a corresponding internal selector object: {error}"
            )
            look.warn("InvalidSelector", message)
            look.status.set(SCALING_ACTIVE, "False", "InvalidSelector", message)
            raise _Undecided(message, None) from error
        entries = look.ctx.store(builtin.POD).list(namespace=key.namespace)
        chosen = [entry for entry in entries if selector.matches(entry.meta.labels)]
        labels = [entry.meta.labels for entry in chosen]
        rivals = [rival for rival in self._rivals(key) if _shares(rival[1], labels)]
        if rivals:
            names = " ".join(f"{{{k.name} {k.namespace}}}" for k in sorted([key, rivals[0][0]]))
            message = (
                f"pods by selector {text} are controlled by more than one HPA (e.g. [{names}])"
            )
            look.warn("AmbiguousSelector", message)
            look.status.set(SCALING_ACTIVE, "False", "AmbiguousSelector", message)
            raise _Undecided(message, None)
        pods = [entry.object() for entry in chosen]
        return Target(key.namespace, look.target.wanted, look.target.observed, text, pods)

    def _rivals(self, key: NamespacedName) -> list[tuple[NamespacedName, LabelSelector]]:
        return [
            (other, past.selector)
            for other, past in self._pasts.items()
            if other != key and other.namespace == key.namespace and past.selector is not None
        ]


def _shares(selector: LabelSelector, labels: Sequence[dict[str, str] | None]) -> bool:
    return any(selector.matches(each) for each in labels)


class _Undecided(MetricUnavailable):
    """The metrics do not tell how many replicas there should be."""

    def __init__(self, message: str, metrics: Sequence[Object] | None) -> None:
        super().__init__(message)
        self.metrics = metrics


def _normalize(look: _Round, wish: int) -> int:
    """Keep a wish from flapping, and within the limits; say so in the conditions."""
    current, now = look.target.wanted, look.ctx.clock.now()
    behavior, history = read_behavior(look.autoscaler), look.past.history
    if behavior is None:
        stable = history.stabilize_descent(wish, now)
        limited = limit_step(current, stable, look.low, look.high)
        is_rise = False
    else:
        stable = history.stabilize(behavior, current, wish, now)
        bounds = (look.low, look.high)
        limited = limit_by_behavior(behavior, history, current, stable, bounds, now)
        is_rise = wish >= current
    if stable == wish:
        reason, message = "ReadyForNewScale", "recommended size matches current size"
    elif is_rise:
        reason = "ScaleUpStabilized"
        message = (
            "recent recommendations were lower than current one, applying the lowest recent "
            "recommendation"
        )
    else:
        reason = "ScaleDownStabilized"
        message = (
            "recent recommendations were higher than current one, applying the highest recent "
            "recommendation"
        )
    look.status.set(ABLE_TO_SCALE, "True", reason, message)
    is_limited = limited.replicas != stable
    look.status.set(
        SCALING_LIMITED, "True" if is_limited else "False", limited.reason, limited.message
    )
    return limited.replicas


async def _rescale(look: _Round, decision: _Decision) -> None:
    current, replicas = look.target.wanted, decision.replicas
    try:
        await look.target.rescale(replicas)
    except KubewrightError as error:
        note = f"New size: {replicas}; reason: {decision.reason}; error: {error}"
        look.warn("FailedRescale", note)
        message = f"the HPA controller was unable to update the target scale: {error}"
        look.status.set(ABLE_TO_SCALE, "False", "FailedUpdateScale", message)
        look.status.finish(current, look.status.desired, decision.metrics)
        return
    message = f"the HPA controller was able to update the target scale to {replicas}"
    look.status.set(ABLE_TO_SCALE, "True", "SucceededRescale", message)
    note = f"New size: {replicas}; reason: {decision.reason}"
    look.ctx.recorder.event(look.autoscaler, "Normal", "SuccessfulRescale", note)
    behavior = read_behavior(look.autoscaler)
    if behavior is not None:
        look.past.history.note_scaling(behavior, current, replicas, look.ctx.clock.now())
    if replicas == 0 and look.low == 0 and look.wakes_from_zero:
        message = "the HPA controller scaled the workload to zero"
        look.status.set(SCALED_TO_ZERO, "True", "ScaledToZero", message)
    else:
        message = "the HPA controller did not scale the workload to zero"
        look.status.set(SCALED_TO_ZERO, "False", "NotScaledToZero", message)
    look.status.finish(current, replicas, decision.metrics, rescaled=True)
