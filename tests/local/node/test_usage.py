"""What containers use: from control groups, from processes, and as it is simulated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node.cgroups import ContainerGroup
from kubewright.local.node.simulated_usage import SimulatedMeter, read_rates
from kubewright.local.node.stats import (
    ContainerStats,
    NodeStats,
    PodStats,
    build_summary,
    format_metrics,
)
from kubewright.local.node.usage import Usage, read_usage, sum_cpu_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def add_process(proc: Path, pid: int, ticks: tuple[int, int, int, int], *children: int) -> None:
    folder = proc / str(pid)
    task = folder / "task" / str(pid)
    task.mkdir(parents=True)
    (task / "children").write_text(" ".join(map(str, children)))
    before = "S 1 2 3 4 5 6 7 8 9 10"
    (folder / "stat").write_text(f"{pid} (a) b) {before} {' '.join(map(str, ticks))} 20 0 1\n")
    (folder / "status").write_text(
        "Name:\ta\nRssAnon:\t 100 kB\nRssShmem:\t 4 kB\nRssFile:\t9 kB\n"
    )


def test_processes_are_summed_up_with_children_that_ended(tmp_path: Path) -> None:
    add_process(tmp_path, 10, (50, 25, 20, 5), 11)
    add_process(tmp_path, 11, (100, 0, 0, 0))
    assert sum_cpu_seconds(10, proc=tmp_path) == pytest.approx(2.0)
    usage = read_usage(10, None, proc=tmp_path)
    assert usage == Usage(2.0, 2 * 104 * 1024)


def test_a_group_of_version_2_tells_all(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_file 800\n")
    group = ContainerGroup(dict.fromkeys(("cpu", "memory"), tmp_path), is_unified=True)
    assert read_usage(1, group) == Usage(2.5, 4200)


def test_what_a_group_does_not_count_is_read_from_processes(tmp_path: Path) -> None:
    memory, proc = tmp_path / "memory", tmp_path / "proc"
    memory.mkdir()
    (memory / "memory.usage_in_bytes").write_text("5000\n")
    (memory / "memory.stat").write_text("cache 1\ntotal_inactive_file 1000\n")
    add_process(proc, 10, (100, 0, 0, 0))
    group = ContainerGroup({"memory": memory}, is_unified=False)
    assert read_usage(10, group, proc=proc) == Usage(1.0, 4000)


def build_pod(requests: dict[str, str] | None = None, **annotations: str) -> Object:
    container: Object = {"name": "c", "image": "i"}
    if requests:
        container["resources"] = {"requests": requests}
    metadata = {
        "name": "p",
        "namespace": "ns",
        "annotations": {f"usage.kubewright.dev/{key}": text for key, text in annotations.items()},
    }
    return {"metadata": metadata, "spec": {"containers": [container]}}


def test_a_simulated_container_uses_what_it_is_told_else_what_it_requests() -> None:
    asked = {"cpu": "250m", "memory": "64Mi"}
    assert read_rates(build_pod(asked), "c") == (0.25, 64 << 20)
    assert read_rates(build_pod(asked, cpu="2", memory="nonsense"), "c") == (2.0, 10 << 20)
    assert read_rates(build_pod(), "c") == (0.001, 10 << 20)


def test_a_changed_rate_counts_from_then_on() -> None:
    meter = SimulatedMeter(NOW)
    assert meter.read(build_pod(cpu="1"), "c", NOW + timedelta(seconds=10)).cpu_seconds == 10
    assert meter.read(build_pod(cpu="3"), "c", NOW + timedelta(seconds=20)).cpu_seconds == 40


def build_stats() -> NodeStats:
    container = ContainerStats("c", NOW, NOW, Usage(1.5, 2048), 0.25)
    pod = PodStats(NamespacedName("ns", "p"), "u", "2026-01-01T00:00:00Z", [container])
    return NodeStats("n", NOW, NOW, Usage(2.0, 4096), [pod], 8192)


def test_metrics_are_named_as_the_kubelets() -> None:
    lines = format_metrics(build_stats()).splitlines()
    milliseconds = int(NOW.timestamp() * 1000)
    labels = 'container="c",namespace="ns",pod="p"'
    assert f"container_cpu_usage_seconds_total{{{labels}}} 1.5 {milliseconds}" in lines
    assert f"container_start_time_seconds{{{labels}}} {NOW.timestamp():.17g}" in lines
    assert f'pod_memory_working_set_bytes{{namespace="ns",pod="p"}} 2048 {milliseconds}' in lines
    assert f"node_cpu_usage_seconds_total 2 {milliseconds}" in lines
    assert "resource_scrape_error 0" in lines


def test_the_summary_tells_rates_and_sums() -> None:
    summary = build_summary(build_stats())
    assert summary["node"]["memory"]["availableBytes"] == 4096
    (pod,) = summary["pods"]
    assert pod["podRef"] == {"name": "p", "namespace": "ns", "uid": "u"}
    assert pod["containers"][0]["cpu"]["usageNanoCores"] == 250_000_000
    assert pod["cpu"]["usageCoreNanoSeconds"] == 1_500_000_000
    assert pod["memory"]["workingSetBytes"] == 2048
