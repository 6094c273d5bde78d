from __future__ import annotations

import asyncio
import os
import socket

import pytest

from kubewright.local.node.detection import detect_runtime
from kubewright.local.node.network import PodNetwork
from kubewright.local.node.pod_addresses import NetworkError
from kubewright.local.node.process import run


async def test_answer_to_a_cancelled_request_is_not_taken_for_the_next_ones() -> None:
    """A probe that takes too long is cancelled; what follows must get its own answer."""
    network = PodNetwork(is_root=False)
    ours, holder = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with holder:
        network.attach(ours)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await network.mount_memory("/late", "")
        late, *_ = holder.recv(100).decode().split("\0")
        request = asyncio.create_task(network.mount_memory("/next", ""))
        number, *words = (await asyncio.to_thread(holder.recv, 100)).decode().split("\0")
        assert words == ["tmpfs", "/next", ""]
        holder.send(f"{late} ok".encode())
        holder.send(f"{number} error no memory".encode())

        with pytest.raises(NetworkError, match="no memory"):
            await request
    await network.stop()


@pytest.mark.processes
async def test_networks_that_start_together_do_not_take_the_same() -> None:
    """Two clusters may read the host's routes before either has one."""
    detection = await detect_runtime()
    if not detection.processes or os.geteuid() != 0:
        pytest.skip(detection.reason or "only root has routes on the host")
    networks = [PodNetwork(is_root=True) for _ in range(3)]
    try:
        await asyncio.gather(*(network.start() for network in networks))
        assert len({network.cidr for network in networks}) == 3
    finally:
        await asyncio.gather(*(network.stop() for network in networks))


async def test_who_waits_for_an_answer_when_the_network_stops_hears_of_it() -> None:
    network = PodNetwork(is_root=False)
    ours, holder = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    network.attach(ours)
    waiting = asyncio.create_task(network.exit_status(7))
    await asyncio.to_thread(holder.recv, 100)
    stopping = asyncio.create_task(network.stop())
    await asyncio.sleep(0)
    holder.close()
    async with asyncio.timeout(5):
        assert await waiting == (-9, None)
        await stopping


@pytest.mark.processes
async def test_gateway_stays_where_pods_know_it() -> None:
    """A bridge takes over the lowest address of its ports, and pods would send to the old one."""
    detection = await detect_runtime()
    if not detection.processes:
        pytest.skip(detection.reason)
    network = PodNetwork(is_root=os.geteuid() == 0)
    await network.start()
    try:
        show = [*network.enter_command(), "ip", "-brief", "link", "show", "pods"]

        async def read_address() -> str:
            _, output = await run(show)
            return output.split()[2]

        before = await read_address()
        sandboxes = [await network.create_sandbox(f"pod-{number}") for number in range(6)]
        assert await read_address() == before
        for sandbox in sandboxes:
            network.remove_sandbox(sandbox)
    finally:
        await network.stop()
