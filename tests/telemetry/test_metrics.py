"""Metrics have controller-runtime's names and labels, and tell what happened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.api.errors import Conflict, TerminalError, TransportError
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.attempt import Attempt, Outcome
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.runtime.queue import KeyQueue, Priority
from kubewright.telemetry.controller_metrics import QUEUE_BUCKETS, RECONCILE_BUCKETS
from kubewright.telemetry.metrics import Metrics

QUEUE = {"name": "c", "controller": "c"}


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def build_attempt(outcome: Outcome = Outcome.SUCCESS, name: str = "a") -> Attempt:
    key = NamespacedName("default", name)
    attempt = Attempt("c", builtin.SECRET, key, started=0.0, ids=Random(0))
    attempt.outcome = outcome
    attempt.seconds = 0.5
    if outcome in (Outcome.ERROR, Outcome.TERMINAL, Outcome.REQUEUE):
        attempt.failure = "broken"
    return attempt


def test_every_series_of_a_controller_is_there_from_the_start() -> None:
    metrics = Metrics()
    metrics.controller("c", 3)
    lines = metrics.answer().text.splitlines()

    for series in (
        'controller_runtime_reconcile_total{controller="c",result="success"} 0.0',
        'controller_runtime_reconcile_total{controller="c",result="error"} 0.0',
        'controller_runtime_reconcile_total{controller="c",result="requeue"} 0.0',
        'controller_runtime_reconcile_total{controller="c",result="requeue_after"} 0.0',
        'controller_runtime_reconcile_errors_total{controller="c"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="c"} 0.0',
        'controller_runtime_reconcile_panics_total{controller="c"} 0.0',
        'controller_runtime_reconcile_timeouts_total{controller="c"} 0.0',
        'controller_runtime_reconcile_time_seconds_count{controller="c"} 0.0',
        'kubewright_dead_letters_total{controller="c"} 0.0',
        'kubewright_stalled_objects{controller="c"} 0.0',
        'kubewright_read_your_writes_timeouts_total{controller="c"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="c"} 3.0',
        'controller_runtime_active_workers{controller="c"} 0.0',
        'workqueue_depth{controller="c",name="c",priority="0"} 0.0',
        'workqueue_adds_total{controller="c",name="c"} 0.0',
        'workqueue_retries_total{controller="c",name="c"} 0.0',
        'workqueue_queue_duration_seconds_count{controller="c",name="c"} 0.0',
        'workqueue_work_duration_seconds_count{controller="c",name="c"} 0.0',
        'workqueue_unfinished_work_seconds{controller="c",name="c"} 0.0',
        'workqueue_longest_running_processor_seconds{controller="c",name="c"} 0.0',
    ):
        assert series in lines
    assert not [line for line in lines if "_created" in line]


def test_buckets_are_controller_runtimes() -> None:
    assert all(low < high for low, high in pairwise(RECONCILE_BUCKETS))
    assert (RECONCILE_BUCKETS[0], RECONCILE_BUCKETS[-1], len(RECONCILE_BUCKETS)) == (0.005, 60, 40)
    assert pytest.approx([1e-8 * 10**n for n in range(12)]) == QUEUE_BUCKETS


def test_tells_what_waits_and_what_is_in_work() -> None:
    time = Time()
    metrics = Metrics(monotonic=time)
    queue: KeyQueue[str] = KeyQueue(Random(0), observer=metrics.controller("c", 1))
    queue.add("a", 90.0)
    queue.add("b", 91.0, Priority.LOW)
    queue.add("b", 92.0, Priority.LOW)
    assert value(metrics, "workqueue_depth", **QUEUE, priority="0") == 1
    assert value(metrics, "workqueue_depth", **QUEUE, priority="-100") == 1

    queue.take(95.0)
    queue.take(97.0)

    assert value(metrics, "workqueue_adds_total", **QUEUE) == 2
    assert value(metrics, "workqueue_queue_duration_seconds_sum", **QUEUE) == 5.0 + 6.0
    assert value(metrics, "workqueue_depth", **QUEUE, priority="0") == 0
    assert value(metrics, "workqueue_unfinished_work_seconds", **QUEUE) == 5.0 + 3.0
    assert value(metrics, "workqueue_longest_running_processor_seconds", **QUEUE) == 5.0
    assert value(metrics, "controller_runtime_active_workers", controller="c") == 2

    queue.add("a", 98.0)
    queue.done("a", 99.0)
    queue.retry("b", 99.0)
    queue.done("b", 99.0)

    assert value(metrics, "workqueue_adds_total", **QUEUE) == 3
    assert value(metrics, "workqueue_retries_total", **QUEUE) == 1
    assert value(metrics, "workqueue_work_duration_seconds_sum", **QUEUE) == 4.0 + 2.0
    assert value(metrics, "controller_runtime_active_workers", controller="c") == 0


def test_a_key_that_becomes_urgent_waits_since_it_was_added() -> None:
    metrics = Metrics()
    queue: KeyQueue[str] = KeyQueue(Random(0), observer=metrics.controller("c", 1))
    queue.add("a", 0.0, Priority.LOW)
    queue.add("a", 1.0, Priority.HIGH)
    assert value(metrics, "workqueue_depth", **QUEUE, priority="0") == 1

    queue.take(3.0)

    assert value(metrics, "workqueue_adds_total", **QUEUE) == 1
    assert value(metrics, "workqueue_queue_duration_seconds_sum", **QUEUE) == 3.0


def test_a_terminal_failure_is_an_error_too() -> None:
    metrics = Metrics()
    observed = metrics.controller("c", 1)
    for outcome in Outcome:
        observed.reconciled(build_attempt(outcome))

    counts = {
        result: value(metrics, "controller_runtime_reconcile_total", controller="c", result=result)
        for result in ("success", "error", "requeue", "requeue_after")
    }
    assert counts == {"success": 1, "error": 2, "requeue": 1, "requeue_after": 1}
    assert value(metrics, "controller_runtime_reconcile_errors_total", controller="c") == 2
    assert value(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="c") == 1
    assert value(metrics, "controller_runtime_reconcile_time_seconds_sum", controller="c") == 2.5


def test_bugs_and_time_limits_are_counted_apart() -> None:
    metrics = Metrics()
    observed = metrics.controller("c", 1)
    bug, late = build_attempt(Outcome.ERROR), build_attempt(Outcome.ERROR)
    bug.is_bug = late.timed_out = True

    observed.reconciled(bug)
    observed.reconciled(late)

    assert value(metrics, "controller_runtime_reconcile_panics_total", controller="c") == 1
    assert value(metrics, "controller_runtime_reconcile_timeouts_total", controller="c") == 1


def test_dead_letters_are_counted_when_they_come_and_shown_while_they_are_there() -> None:
    metrics = Metrics()
    observed = metrics.controller("c", 1)

    for count in (1, 2, 1, 2, 0):
        observed.stalled(count)

    assert value(metrics, "kubewright_stalled_objects", controller="c") == 0
    assert value(metrics, "kubewright_dead_letters_total", controller="c") == 3


def test_waits_for_own_writes_are_measured_and_those_in_vain_counted() -> None:
    metrics = Metrics()
    observed = metrics.controller("c", 1)
    seen, unseen = build_attempt(), build_attempt()
    seen.waited, unseen.waited, unseen.settled = 0.25, 5.0, False

    for attempt in (seen, unseen, build_attempt()):
        observed.reconciled(attempt)

    waits = "controller_runtime_client_consistency_wait_duration_seconds_sum"
    assert value(metrics, waits, operation="reconcile", result="success") == 0.25
    assert value(metrics, waits, operation="reconcile", result="timeout") == 5.0
    assert value(metrics, "kubewright_read_your_writes_timeouts_total", controller="c") == 1


def test_a_slow_renewal_is_counted_from_0() -> None:
    metrics = Metrics()
    metrics.leading("operator", is_leading=False)
    assert value(metrics, "leader_election_slowpath_total", name="operator") == 0

    metrics.renewed_slowly("operator")

    assert value(metrics, "leader_election_slowpath_total", name="operator") == 1


def test_tells_who_leads() -> None:
    metrics = Metrics()
    metrics.leading("operator", is_leading=False)
    assert value(metrics, "leader_election_master_status", name="operator") == 0

    metrics.leading("operator", is_leading=True)

    assert value(metrics, "leader_election_master_status", name="operator") == 1


async def test_a_manager_and_its_requests_are_measured() -> None:
    metrics = Metrics()
    errors: list[Exception] = [Conflict("raced"), ValueError("broken"), TerminalError("never")]

    failed = asyncio.Event()

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        if key.name == "target" and errors:
            error = errors.pop(0)
            if not errors:
                failed.set()
            raise error

    async with serve(ServerOptions(listening=False)) as server:
        client = Client(metrics.measure(server.client_transport(), "server:443"))
        meta = {"name": "target", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        manager = Manager(client, observer=metrics, namespaces=["default"])
        manager.add(Controller("c", builtin.SECRET, reconcile))
        task = asyncio.create_task(manager.run())
        try:
            async with asyncio.timeout(5):
                await failed.wait()
        finally:
            task.cancel()
            await asyncio.wait((task,))

    reconciles = "controller_runtime_reconcile_total"
    assert value(metrics, reconciles, controller="c", result="requeue") == 1
    assert value(metrics, reconciles, controller="c", result="error") == 2
    assert value(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="c") == 1
    requests = "rest_client_requests_total"
    created = value(metrics, requests, code="201", method="POST", host="server:443")
    assert created is not None
    assert created >= 1
    watched = value(metrics, requests, code="200", method="GET", host="server:443")
    assert watched is not None
    assert watched >= 1
    watches = {"resource": "secrets", "namespace": "default"}
    assert value(metrics, "kubewright_watches_total", **watches) == 1
    assert value(metrics, "kubewright_watch_relists_total", **watches) == 1
    assert value(metrics, "kubewright_watch_failures_total", **watches) == 0
    assert value(metrics, "kubewright_watch_behind_seconds", **watches) == 0
    contact = value(metrics, "kubewright_watch_last_contact_seconds", **watches)
    assert contact is not None
    assert 0 <= contact < 10
    assert value(metrics, "kubewright_cache_objects", resource="secrets") == 1


async def _no_chunks() -> AsyncIterator[bytes]:
    yield b""


class Refusing:
    """Answer 409 while `open`, and nothing afterwards."""

    is_open = True

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if not self.is_open:
            raise TransportError("no answer")
        return Response(409)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AsyncIterator[Stream]:
        await self.request(method, path)
        yield Stream(409, {}, _no_chunks())

    async def close(self) -> None:
        """Hold nothing."""


async def test_a_request_without_an_answer_counts_as_an_error() -> None:
    metrics = Metrics()
    inner = Refusing()
    transport = metrics.measure(inner, "h")
    await transport.request("PUT", "/a")
    inner.is_open = False
    with pytest.raises(TransportError):
        await transport.request("PUT", "/a")
    with pytest.raises(TransportError):
        async with transport.stream("GET", "/a"):
            pass

    requests = "rest_client_requests_total"
    assert value(metrics, requests, code="409", method="PUT", host="h") == 1
    assert value(metrics, requests, code="<error>", method="PUT", host="h") == 1
    assert value(metrics, requests, code="<error>", method="GET", host="h") == 1


async def test_durations_and_sizes_of_requests_are_measured_for_those_who_ask() -> None:
    metrics = Metrics(rest_client_histograms=True)
    transport = metrics.measure(Refusing(), "h")

    await transport.request("PUT", "/a", body=b"12345")
    async with transport.stream("GET", "/a"):
        pass

    labels = {"verb": "PUT", "host": "h"}
    assert value(metrics, "rest_client_request_size_bytes_sum", **labels) == 5
    assert value(metrics, "rest_client_response_size_bytes_sum", **labels) == 0
    assert value(metrics, "rest_client_request_duration_seconds_count", **labels) == 1
    watched = value(metrics, "rest_client_request_duration_seconds_count", verb="GET", host="h")
    assert watched == 1
    assert "rest_client_request_duration" not in Metrics().answer().text


def test_prometheus_is_not_loaded_without_metrics() -> None:
    code = (
        "import sys, kubewright.telemetry\n"
        "from kubewright.cli.probes import Probes\n"
        "Probes.parse('0', ':0')\n"
        "print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"
