"""A manager starts its parts in order and ends them in the reverse one."""

from __future__ import annotations

import asyncio

from kubewright.client.client import Client
from kubewright.runtime.leader_election import LeaderElection
from kubewright.runtime.manager import Manager


class Part:
    def __init__(self, name: str, told: list[str], manager: Manager) -> None:
        self._name = name
        self._told = told
        self._manager = manager
        self.started = asyncio.Event()

    async def run(self) -> None:
        self._told.append(f"{self._name} starts, synced: {self._manager.is_ready}")
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._told.append(f"{self._name} ends")


async def test_what_needs_no_leadership_starts_before_the_caches_and_ends_last(
    client: Client, namespace: str
) -> None:
    manager = Manager(client, namespaces=[namespace])
    told: list[str] = []
    server, worker = Part("server", told, manager), Part("worker", told, manager)
    manager.add(worker)
    manager.add(server, needs_leader_election=False)

    task = asyncio.create_task(manager.run())
    await worker.started.wait()
    task.cancel()
    await asyncio.wait((task,))

    assert told == [
        "server starts, synced: False",
        "worker starts, synced: True",
        "worker ends",
        "server ends",
    ]


async def test_a_replica_that_stands_by_serves_all_the_same(client: Client, namespace: str) -> None:
    told: list[str] = []
    tasks = []
    for name in ("one", "two"):
        manager = Manager(client, leader_election=LeaderElection("parts", namespace, identity=name))
        server, worker = Part("server", told, manager), Part("worker", told, manager)
        manager.add(server, needs_leader_election=False)
        manager.add(worker)
        tasks.append(asyncio.create_task(manager.run()))
        await server.started.wait()
        if name == "one":
            await worker.started.wait()

    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert [line.split(",")[0] for line in told[:3]] == [
        "server starts",
        "worker starts",
        "server starts",
    ]
