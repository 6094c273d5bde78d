"""The queries of kubebuilder's Grafana plugin find series, with the labels that they group by.

Facts taken from its scaffolds `controller-runtime-metrics.json` and
`controller-resources-metrics.json`: the series that each query names, and the labels in its `by`
clause or legend that the process itself must set. `job`, `namespace`, `instance` and `pod` are set
by Prometheus when it scrapes.
"""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.telemetry.metrics import Metrics

RUNTIME = [
    ("controller_runtime_active_workers", {"controller"}),
    ("controller_runtime_reconcile_total", {"controller", "result"}),
    ("controller_runtime_reconcile_errors_total", {"controller"}),
    ("workqueue_depth", {"name"}),
    ("workqueue_queue_duration_seconds_bucket", {"name", "le"}),
    ("workqueue_adds_total", {"name"}),
    ("workqueue_unfinished_work_seconds", {"name"}),
    ("workqueue_work_duration_seconds_bucket", {"name", "le"}),
    ("workqueue_retries_total", {"name"}),
]
RESOURCES: list[tuple[str, set[str]]] = [
    ("process_cpu_seconds_total", set()),
    ("process_resident_memory_bytes", set()),
]
# Not in the scaffolds, but in the alerts and dashboards that people build beside them.
COMMON = [
    ("controller_runtime_max_concurrent_reconciles", {"controller"}),
    ("controller_runtime_reconcile_time_seconds_bucket", {"controller", "le"}),
    ("controller_runtime_reconcile_panics_total", {"controller"}),
    ("controller_runtime_terminal_reconcile_errors_total", {"controller"}),
    ("workqueue_longest_running_processor_seconds", {"name"}),
    ("rest_client_requests_total", {"code", "method", "host"}),
]
# The dashboards draw targets that have none of these labels of their own.
TARGET_LABELS = {"job", "namespace", "instance", "pod"}

Series = dict[str, list[dict[str, str]]]


def read_series(metrics: Metrics) -> Series:
    series: Series = {}
    for family in text_string_to_metric_families(metrics.answer().text):
        for sample in family.samples:
            series.setdefault(sample.name, []).append(dict(sample.labels))
    return series


@pytest.fixture
async def series() -> Series:
    """Scrape a manager whose controller never had anything to do."""
    metrics = Metrics()

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        raise AssertionError

    async with serve(ServerOptions(listening=False)) as server:
        client = Client(metrics.measure(server.client_transport(), "server:443"))
        manager = Manager(client, observer=metrics, namespaces=["default"])
        manager.add(Controller("memcached", builtin.CRON_JOB, reconcile))
        task = asyncio.create_task(manager.run())
        async with asyncio.timeout(5):
            await manager.wait_ready()
        found = read_series(metrics)
        task.cancel()
        await asyncio.wait((task,))
    return found


@pytest.mark.parametrize(("name", "labels"), [*RUNTIME, *RESOURCES, *COMMON])
async def test_each_query_finds_series_before_the_first_reconcile(
    series: Series, name: str, labels: set[str]
) -> None:
    assert series.get(name), f"no series {name}"
    for found in series[name]:
        assert labels <= found.keys()


@pytest.mark.parametrize(("name", "labels"), [*RUNTIME, *RESOURCES])
async def test_no_series_has_a_label_that_prometheus_sets(
    series: Series, name: str, labels: set[str]
) -> None:
    # It would be renamed to `exported_namespace`, and the dashboards' selectors would miss it.
    for found in series[name]:
        assert not TARGET_LABELS & found.keys()
