"""Two replicas as processes: one that was frozen past its lease writes nothing when it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.testing import Call, FaultProxy, Faults
from tests.adversity.ticking_operator import Ticker, operator
from tests.runtime.conftest import eventually

KUBEWRIGHT = Path(sys.prefix) / "bin" / "kubewright"
PROGRAM = Path(__file__).with_name("ticking_operator.py")
LEASE = 3.0


class Replica:
    """A process of the operator, and all that it sends."""

    def __init__(self, name: str, upstream: Transport, namespace: str, folder: Path) -> None:
        self.name = name
        self.faults = Faults()
        self._proxy = FaultProxy(upstream, self.faults)
        self._namespace = namespace
        self._kubeconfig = folder / f"{name}.kubeconfig"
        self._log = folder / f"{name}.log"
        self._process: Process | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        """Run it while the block lasts."""
        async with self._proxy.serve():
            self._proxy.write_kubeconfig(self._kubeconfig)
            with self._log.open("wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(str(KUBEWRIGHT), "run", str(PROGRAM), "--leader-elect"),
                    *("--kubeconfig", str(self._kubeconfig), "-n", self._namespace),
                    *("--leader-election-namespace", self._namespace),
                    *("--leader-election-lease-duration", str(LEASE)),
                    *("--leader-election-renew-deadline", "2"),
                    *("--leader-election-retry-period", "0.3"),
                    env={**os.environ, "REPLICA": self.name},
                    stdout=log,
                    stderr=log,
                )
            try:
                yield self
            finally:
                if self._process.returncode is None:
                    self._process.kill()
                await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it said."""
        assert self._process is not None
        async with asyncio.timeout(20):
            return await self._process.wait(), self._log.read_text()

    @property
    def writes(self) -> list[Call]:
        return self.faults.traffic.writes

    async def works(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self._log.read_text()
        return sum(call.resource == "configmaps" for call in self.writes) > 20

    async def stands_by(self) -> bool:
        return self._log.exists() and "standing by" in self._log.read_text()


async def writer_of(admin: Client, namespace: str) -> str:
    target = await admin.get(builtin.CONFIG_MAP, "target", namespace=namespace)
    return str(target["data"]["writer"])


@pytest.fixture
async def ticker(admin: Client, namespace: str) -> None:
    """Have the operator write a ConfigMap in the test's namespace."""
    await operator.ensure_crds(admin)
    target = {"name": "target", "namespace": namespace}
    await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": target})
    resource = Ticker.resource
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    await admin.create({**body, "metadata": {**target, "name": "ticker"}, "spec": {}})


@pytest.mark.usefixtures("ticker")
async def test_a_leader_frozen_past_its_lease_writes_nothing_when_it_goes_on(
    upstream: Transport, admin: Client, namespace: str, tmp_path: Path
) -> None:
    first = Replica("first", upstream, namespace, tmp_path)
    second = Replica("second", upstream, namespace, tmp_path)
    async with first.running():
        await eventually(first.works, seconds=20)
        async with second.running():
            await eventually(second.stands_by, seconds=20)
            first.signal(signal.SIGSTOP)
            frozen_at = asyncio.get_running_loop().time()
            await eventually(second.works, seconds=20)
            waited = asyncio.get_running_loop().time() - frozen_at
            before = len(first.writes)

            first.signal(signal.SIGCONT)
            code, said = await first.ended()

            assert len(first.writes) == before, first.writes[before:]
            assert code != 0
            assert "not renewed within 2 s" in said or "was taken by" in said
            # The new one did not begin early either: the old one had its time to stop.
            assert waited >= LEASE - 0.5
            assert not any(call.resource == "configmaps" for call in _before_lease(second))
            assert await writer_of(admin, namespace) == "second"


def _before_lease(replica: Replica) -> list[Call]:
    """Return what a replica wrote before it took the lease."""
    taken = [n for n, call in enumerate(replica.writes) if call.resource == "leases"]
    return replica.writes[: taken[0]]


@pytest.mark.usefixtures("ticker")
async def test_a_replica_that_is_killed_is_replaced_when_its_lease_ends(
    upstream: Transport, admin: Client, namespace: str, tmp_path: Path
) -> None:
    first = Replica("first", upstream, namespace, tmp_path)
    second = Replica("second", upstream, namespace, tmp_path)
    async with first.running():
        await eventually(first.works, seconds=20)
        async with second.running():
            await eventually(second.stands_by, seconds=20)
            first.signal(signal.SIGKILL)
            killed_at = asyncio.get_running_loop().time()
            await eventually(second.works, seconds=20)
            # Killed, it could not release the lease: the other waits for its end, no longer.
            assert LEASE - 0.5 <= asyncio.get_running_loop().time() - killed_at < 2 * LEASE + 2
            assert await writer_of(admin, namespace) == "second"
