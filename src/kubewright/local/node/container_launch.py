"""Starting the launcher, and waiting until the command it is for is executed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubewright.local.node.cgroups import ContainerGroup
from kubewright.local.node.descriptor_channel import receive
from kubewright.local.node.network import PodNetwork
from kubewright.local.node.process import HeldProcess, Process
from kubewright.local.node.runtime import StartError

LAUNCHER = Path(__file__).with_name("launcher.py")


class Started(msgspec.Struct, frozen=True):
    """A command that was executed. `inner_pid` is its number in the holder's pid namespace.

    `mounts` is the number of its mount namespace, which no other container has.
    """

    process: HeldProcess
    inner_pid: int = 0
    mounts: int = 0


async def join_container(
    network: PodNetwork,
    config: dict[str, Any],
    outputs: Sequence[int],
    *,
    stdin: int = subprocess.DEVNULL,
    group: ContainerGroup | None = None,
) -> Process:
    """Start a command in a running container.

    Raises:
        StartError: the command cannot be executed.
        NetworkError: the holder is gone.
    """
    with contextlib.ExitStack() as stack:
        if stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, stdin)
        started = await _finish(_launch(network, "join", config, [stdin, *outputs], (), group))
    return started.process


async def create_container(
    network: PodNetwork,
    config: dict[str, Any],
    streams: tuple[int, int, int],
    *,
    group: ContainerGroup | None = None,
) -> Started:
    """Start a container. Its command is a child of the network's holder, and outlives the agent.

    Raises:
        StartError: the command cannot be executed.
        NetworkError: the holder is gone.
    """
    sandbox = config["sandbox"]
    # The holder gives them these numbers, after the standard streams and the channel.
    inner = {**config, "sandbox": list(range(4, 4 + len(sandbox)))}
    return await _finish(_launch(network, "create", inner, streams, sandbox, group))


def hold_process(network: PodNetwork, pid: int, inner_pid: int) -> HeldProcess:
    """Watch over a child of the network's holder."""
    return HeldProcess(pid, lambda: network.exit_status(inner_pid))


async def _finish(launching: Awaitable[Started]) -> Started:
    """Wait for a launch; when cancelled, what is underway is waited for and killed."""
    work = asyncio.ensure_future(launching)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        with contextlib.suppress(StartError):
            (await work).process.kill()
        raise


async def _launch(
    network: PodNetwork,
    verb: str,
    config: dict[str, Any],
    streams: Sequence[int],
    sandbox: Sequence[int],
    group: ContainerGroup | None,
) -> Started:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    ours.setblocking(False)
    with ours:
        with theirs:
            await network.launch(LAUNCHER, verb, [*streams, theirs.fileno(), *sandbox])
        return await _handshake(ours, network, config, group)


async def _handshake(
    channel: socket.socket,
    network: PodNetwork,
    config: dict[str, Any],
    group: ContainerGroup | None,
) -> Started:
    """Give the launcher its configuration; return the command's process once it is executed."""
    loop = asyncio.get_running_loop()
    message, _, launcher = await receive(channel)
    if message != b"hello":
        raise StartError("the launcher ended early")
    if group is not None:
        try:
            await asyncio.to_thread(group.add, launcher)
        except OSError as error:
            # The container has ended meanwhile, and its group with it.
            raise StartError(f"the container's control group is gone: {error.strerror}") from error
    await loop.sock_sendall(channel, json.dumps(config).encode())
    channel.shutdown(socket.SHUT_WR)
    command: HeldProcess | None = None
    pid = inner_pid = mounts = 0
    while True:
        message, _, sender = await receive(channel)
        word, _, text = message.decode(errors="replace").partition(" ")
        if not message and command is not None:
            return Started(command, inner_pid, mounts)
        # Each comes from another process, so that either may be the first.
        if word == "made":
            inner_pid = int(text)
        elif word == "ready":
            pid, mounts = sender, int(text or 0)
        else:
            if command is None and sender not in (0, launcher):
                # Until it is gone, it keeps its pod's namespaces from ending.
                command = hold_process(network, sender, inner_pid)
            if command is not None:
                await command.wait()
            raise StartError(text or "the launcher ended early")
        if pid and inner_pid and command is None:
            command = hold_process(network, pid, inner_pid)
