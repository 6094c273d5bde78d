"""A program for the tests: runs two memcached containers, tries them, tells, waits for its end.

python -m tests.local.node.two_memcached FOLDER
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.network.netlink import KernelRefused, PacketFilter
from kubewright.local.network.ruleset import Ruleset, plan_changes, plan_table
from kubewright.local.network.service_proxy import build_trial_rules
from kubewright.local.node.detection import search_path
from kubewright.local.node.process_runtime import ProcessRuntime
from kubewright.local.node.runtime import (
    ContainerConfig,
    Outcome,
    PodIdentity,
    RunningContainer,
    Sandbox,
    SecuritySettings,
)

PORT = 11211
SECURITY = SecuritySettings(
    uid=11211, gid=11211, capabilities=0, no_new_privileges=True, read_only_root=True
)
CONVERSATION = b"set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n"


async def start(
    runtime: ProcessRuntime, name: str, folder: Path
) -> tuple[Sandbox, RunningContainer]:
    """Start a pod of one memcached container."""
    image = await runtime.pull_image("memcached:1.6.9")
    sandbox = await runtime.create_sandbox(PodIdentity(NamespacedName("ns", name), name, name))
    config = ContainerConfig(
        name="memcached",
        attempt=0,
        image=image,
        argv=[*image.entrypoint, "-m", "16"],
        env=image.env,
        workdir="/",
        security=SECURITY,
        log=folder / f"{name}.log",
    )
    container = await runtime.start_container(sandbox, config)
    probe = {"tcpSocket": {"port": PORT}}
    while True:
        if (await runtime.probe(container, sandbox, probe, {})).outcome is Outcome.SUCCESS:
            return sandbox, container
        await asyncio.sleep(0.02)


async def talk(runtime: ProcessRuntime, address: str) -> str:
    """Hold a conversation with a memcached server at its own address."""
    connection = await runtime.connect(address, PORT)
    reader, writer = await asyncio.open_connection(sock=connection)
    writer.write(CONVERSATION)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def try_packet_filter(runtime: ProcessRuntime) -> int:
    """Make rules of every kind in the pods' network; return why the kernel refuses, or 0."""
    packet_filter = PacketFilter(await runtime.network.open_socket("netfilter"))
    try:
        packet_filter.commit(plan_table("test"))
        packet_filter.commit(plan_changes("test", Ruleset(), build_trial_rules()))
    except KernelRefused as error:
        return error.code
    finally:
        packet_filter.close()
    return 0


async def main(folder: Path) -> None:
    """Run the program."""
    runtime = ProcessRuntime(folder)
    await runtime.start()
    pods = [await start(runtime, name, folder) for name in ("a", "b")]
    _, container = pods[0]
    ids = await runtime.execute(container, ["sh", "-c", "id -u; hostname; echo x > /x"], 10)
    status = await runtime.execute(container, ["grep", "-E", "CapEff|NoNewPrivs", "/proc/1/status"])
    report: Object = {
        "filter_error": await try_packet_filter(runtime),
        "addresses": [sandbox.address for sandbox, _ in pods],
        "answers": [await talk(runtime, sandbox.address) for sandbox, _ in pods],
        "ids": ids.output,
        "ids_code": ids.exit_code,
        "status": status.output,
        "enter": runtime.enter_command(),
        "pids": [runtime.pid_of(container) for _, container in pods],
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    os.environ["PATH"] = search_path()
    asyncio.run(main(Path(sys.argv[1])))
