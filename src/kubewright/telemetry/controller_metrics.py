"""The metrics of controllers and their queues, as controller-runtime and client-go name them."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Hashable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from kubewright.runtime.attempt import Attempt, Outcome
from kubewright.runtime.observer import NoControllerObserver
from kubewright.runtime.queue import Priority

# The numbers that controller-runtime gives to changes, and to what start-up and resyncs bring;
# deletions have a priority of their own only here.
_PRIORITIES = {Priority.URGENT: "100", Priority.HIGH: "0", Priority.LOW: "-100"}

# Result labels of controller-runtime; a terminal failure is an error there too.
_RESULTS = {
    Outcome.SUCCESS: "success",
    Outcome.REQUEUE: "requeue",
    Outcome.REQUEUE_AFTER: "requeue_after",
    Outcome.ERROR: "error",
    Outcome.TERMINAL: "error",
}


def _build_reconcile_buckets() -> list[float]:
    """Build controller-runtime's buckets: 5 ms to 60 s, ever wider."""
    steps = [(0.05, 0.5, 0.05), (0.5, 1, 0.1), (1, 2, 0.25), (2, 5, 0.5), (5, 10, 1), (10, 30, 5)]
    buckets = [0.005, 0.01, 0.025]
    for begin, end, step in steps:
        buckets += [round(begin + n * step, 3) for n in range(round((end - begin) / step))]
    return [*buckets, 30.0, 40.0, 50.0, 60.0]


RECONCILE_BUCKETS = _build_reconcile_buckets()
WAIT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10]
QUEUE_BUCKETS = [10.0**exponent for exponent in range(-8, 4)]


class ControllerMetrics:
    """Define the metrics once, and give each controller its own series of them."""

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._observed: list[ObservedController] = []
        by_controller = ["controller"]
        self.reconciles = Counter(
            "controller_runtime_reconcile_total",
            "Reconciles by controller and result.",
            ["controller", "result"],
            registry=registry,
        )
        self.errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciles that failed, terminal failures among them.",
            by_controller,
            registry=registry,
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that failed and are not tried again until something changes.",
            by_controller,
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciles that failed by a bug: what would be a panic in Go, such as a TypeError.",
            by_controller,
            registry=registry,
        )
        self.timeouts = Counter(
            "controller_runtime_reconcile_timeouts_total",
            "Reconciles that were cancelled because their function did not end in time.",
            by_controller,
            registry=registry,
        )
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long reconciles take.",
            by_controller,
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self.limit = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers of a controller.",
            by_controller,
            registry=registry,
        )
        self.stalled = Gauge(
            "kubewright_stalled_objects",
            "Objects that failed ten times in a row, or that wait for a change after a failure.",
            by_controller,
            registry=registry,
        )
        self._define_queue(registry)
        self._define_own(registry)
        registry.register(self)

    def _define_queue(self, registry: CollectorRegistry) -> None:
        names = ["name", "controller"]
        self.adds = Counter(
            "workqueue_adds_total", "Keys that became ready.", names, registry=registry
        )
        self.retries = Counter(
            "workqueue_retries_total", "Keys that were given a back-off.", names, registry=registry
        )
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long ready keys wait for a worker.",
            names,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long workers have keys.",
            names,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )

    def _define_own(self, registry: CollectorRegistry) -> None:
        self.settled = Histogram(
            "controller_runtime_client_consistency_wait_duration_seconds",
            "How long reconciles wait until the stores have seen the object's last writes.",
            ["operation", "result"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )
        self.settle_timeouts = Counter(
            "kubewright_read_your_writes_timeouts_total",
            "Reconciles that began although a store had not seen the object's last writes.",
            ["controller"],
            registry=registry,
        )
        self.dead_letters = Counter(
            "kubewright_dead_letters_total",
            "Objects that became stalled: failed ten times in a row, or terminally.",
            ["controller"],
            registry=registry,
        )

    def controller(self, name: str, workers: int) -> ObservedController:
        """Return the observer of a controller; its series are there from now on."""
        self.limit.labels(name).set(workers)
        observed = ObservedController(self, name)
        self._observed.append(observed)
        return observed

    def collect(self) -> Iterator[Metric]:
        """Build what is only known when it is asked for."""
        names = ["name", "controller"]
        depth = GaugeMetricFamily(
            "workqueue_depth", "Ready keys.", labels=["name", "controller", "priority"]
        )
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds of all work in progress.", labels=names
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds of the longest work in progress.",
            labels=names,
        )
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers that have a key.", labels=["controller"]
        )
        now = self._monotonic()
        for observed in self._observed:
            name = observed.name
            for priority, count in observed.depths().items():
                depth.add_metric([name, name, priority], count)
            running = observed.running(now)
            unfinished.add_metric([name, name], sum(running))
            longest.add_metric([name, name], max(running, default=0.0))
            active.add_metric([name], len(running))
        yield from (depth, unfinished, longest, active)


class ObservedController(NoControllerObserver):
    """Count what happens to one controller; see `kubewright.runtime.observer`."""

    def __init__(self, metrics: ControllerMetrics, name: str) -> None:
        self.name = name
        self._ready: dict[Hashable, tuple[float, int]] = {}
        self._active: dict[Hashable, float] = {}
        self._errors = metrics.errors.labels(name)
        self._terminal_errors = metrics.terminal_errors.labels(name)
        self._panics = metrics.panics.labels(name)
        self._timeouts = metrics.timeouts.labels(name)
        self._settled = metrics.settled.labels("reconcile", "success")
        self._unsettled = metrics.settled.labels("reconcile", "timeout")
        self._settle_timeouts = metrics.settle_timeouts.labels(name)
        self._dead_letters = metrics.dead_letters.labels(name)
        self._stalled_count = 0
        self._seconds = metrics.seconds.labels(name)
        self._stalled = metrics.stalled.labels(name)
        self._adds = metrics.adds.labels(name, name)
        self._retries = metrics.retries.labels(name, name)
        self._waited = metrics.waited.labels(name, name)
        self._worked = metrics.worked.labels(name, name)
        self._results = {
            outcome: metrics.reconciles.labels(name, result) for outcome, result in _RESULTS.items()
        }

    def added(self, key: Hashable, priority: int, now: float) -> None:
        """Count a key that became ready; one that became more urgent still waits since it did."""
        before = self._ready.get(key)
        if before is None:
            self._adds.inc()
        self._ready[key] = (now if before is None else before[0], priority)

    def taken(self, key: Hashable, now: float) -> None:
        """Measure how long a key waited."""
        since, _ = self._ready.pop(key, (now, Priority.HIGH))
        self._waited.observe(now - since)
        self._active[key] = now

    def done(self, key: Hashable, now: float) -> None:
        """Measure how long a key was in work."""
        self._worked.observe(now - self._active.pop(key, now))

    def retried(self, key: Hashable) -> None:
        """Count a back-off."""
        self._retries.inc()

    def reconciled(self, attempt: Attempt) -> None:
        """Count and measure a reconcile."""
        self._results[attempt.outcome].inc()
        self._seconds.observe(attempt.seconds)
        if attempt.waited is not None:
            (self._settled if attempt.settled else self._unsettled).observe(attempt.waited)
        if not attempt.settled:
            self._settle_timeouts.inc()
        if attempt.failure:
            self._failed(attempt)

    def _failed(self, attempt: Attempt) -> None:
        if attempt.outcome in (Outcome.ERROR, Outcome.TERMINAL):
            self._errors.inc()
        if attempt.outcome is Outcome.TERMINAL:
            self._terminal_errors.inc()
        if attempt.is_bug:
            self._panics.inc()
        if attempt.timed_out:
            self._timeouts.inc()

    def stalled(self, count: int) -> None:
        """Show how many objects are stalled, and count those that became it."""
        self._dead_letters.inc(max(count - self._stalled_count, 0))
        self._stalled_count = count
        self._stalled.set(count)

    def depths(self) -> dict[str, int]:
        """Return how many keys are ready, by priority."""
        counts = Count(priority for _, priority in self._ready.values())
        return {label: counts[priority] for priority, label in _PRIORITIES.items()}

    def running(self, now: float) -> list[float]:
        """Return for how long each key has been in work."""
        return [now - since for since in self._active.values()]
