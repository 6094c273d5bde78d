"""The event loop is blocked for seconds: it is told, probes see it, and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kubewright.api import builtin
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.client.requests import PatchType
from kubewright.runtime.context import Context
from kubewright.runtime.manager import Manager
from kubewright.runtime.operator import Operator
from kubewright.telemetry import BindAddress, Health, Metrics, Watchdog, combine_observers
from kubewright.telemetry.endpoints import serve_endpoints
from tests.adversity.conftest import Pools
from tests.runtime.conftest import config_map_names, eventually
from tests.runtime.pools import Pool, build_operator
from tests.telemetry.running import run_manager

pytestmark = pytest.mark.processes

BLOCK = 2.5
PROBE_TIMEOUT = 1.0
"""As a kubelet's `timeoutSeconds`, which is all that makes a blocked loop unlive."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[KubeConfig]:
    """Start an API server in a process of its own: it goes on while this one is blocked."""
    command = [sys.executable, "-m", "kubewright.local.apiserver", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("ready")
            yield KubeConfig.load(tmp_path / "kubeconfig")
        finally:
            server.terminate()


class Block:
    """Block the event loop once, and tell other threads when that begins and that it is over."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()

    def block_the_loop(self) -> None:
        if not self.begun.is_set():
            self.begun.set()
            time.sleep(BLOCK)
            self.over.set()


async def change_everything(config: KubeConfig) -> None:
    """Create, change and delete, as users do while the operator hears nothing."""
    async with connect(config) as client:
        pools = Pools(client, "default")
        await pools.create("made-meanwhile", size=2)
        await pools.set("changed", word="b")
        await pools.set("shrunk", size=1)
        await pools.delete("deleted")
        await client.delete(builtin.CONFIG_MAP, "repaired-0", namespace="default")
        spoiled = {"data": {"word": "spoiled"}}
        await client.patch(
            builtin.CONFIG_MAP, "spoiled-0", spoiled, type=PatchType.MERGE, namespace="default"
        )


def probe(address: BindAddress) -> int | None:
    """Ask as a kubelet does; None where no answer came in time."""
    try:
        with urlopen(f"http://{address}/healthz", timeout=PROBE_TIMEOUT) as answer:
            return int(answer.status)
    except (URLError, TimeoutError):
        return None


def meanwhile(block: Block, config: KubeConfig, address: BindAddress) -> tuple[int | None, bool]:
    """Probe and change everything while the loop is blocked; tell whether it was, to the end."""
    assert block.begun.wait(20)
    answer = probe(address)
    asyncio.run(change_everything(config))
    return answer, not block.over.is_set()


def build_blocking_operator(block: Block) -> Operator:
    operator = build_operator()

    @operator.reconcile(Pool)
    async def reconcile(pool: Pool, ctx: Context) -> None:
        if pool.metadata.name == "trigger":
            block.block_the_loop()

    return operator


async def test_a_blocked_loop_is_told_and_unlive_and_loses_nothing(
    kubeconfig: KubeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    block, metrics = Block(), Metrics()
    watchdog = Watchdog(metrics.blocked, limit=timedelta(milliseconds=300))
    async with connect(kubeconfig) as client, connect(kubeconfig) as admin:
        operator, pools = build_blocking_operator(block), Pools(admin, "default")
        await operator.ensure_crds(client)
        manager = Manager(client, observer=combine_observers([metrics, watchdog]))
        operator.add_to(manager)
        health = Health(manager, monotonic=manager.clock.monotonic)
        async with (
            watchdog.watching(),
            serve_endpoints(BindAddress("127.0.0.1", 0), {"/healthz": health.alive}) as address,
            run_manager(manager),
        ):
            for name in ("changed", "shrunk", "deleted", "repaired", "spoiled"):
                await pools.create(name, size=2)
                await pools.settle(name, 2)
            with caplog.at_level(logging.WARNING):
                other = asyncio.create_task(
                    asyncio.to_thread(meanwhile, block, kubeconfig, address)
                )
                await pools.create("trigger")
                answer, was_blocked = await other

            assert was_blocked, "the changes took longer than the block"
            assert answer is None
            assert await asyncio.to_thread(probe, address) == 200
            await assert_converged(admin, pools)
    reports = [r.getMessage() for r in caplog.records if "block_the_loop" in r.getMessage()]
    assert len(reports) == 1
    assert Path(__file__).name in reports[0]
    blocked = metrics.registry.get_sample_value("kubewright_event_loop_blocked_seconds_sum")
    assert blocked is not None
    assert blocked > BLOCK / 2


async def assert_converged(admin: Client, pools: Pools) -> None:
    for name, members in {"made-meanwhile": 2, "changed": 2, "shrunk": 1, "repaired": 2}.items():
        await pools.settle(name, members)
    expected = [
        *("changed-0", "changed-1", "made-meanwhile-0", "made-meanwhile-1", "repaired-0"),
        *("repaired-1", "shrunk-0", "spoiled-0", "spoiled-1", "trigger-0"),
    ]

    async def is_as_desired() -> bool:
        # The children of the deleted pool are the garbage collector's, which does not run here.
        names = await config_map_names(admin, "default")
        words = [await word_of(admin, name) for name in ("changed-0", "changed-1", "spoiled-0")]
        mine = [name for name in names if not name.startswith("deleted-")]
        return mine == expected and words == ["b", "b", "a"]

    await eventually(is_as_desired)


async def word_of(admin: Client, name: str) -> str:
    found = await admin.get(builtin.CONFIG_MAP, name, namespace="default")
    return str(found["data"]["word"])
