"""Run as a program: a node's runtime that starts a pod with containers, tells of it, and waits.

agent.py FOLDER start      makes the pod
agent.py FOLDER take       takes over what an earlier program of this folder has left

The report is a line of JSON. A file `end` in the folder `signals` ends one of the containers; the
end of standard input ends the runtime with all that it has.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node import ProcessRuntime
from kubewright.local.node.detection import search_path
from kubewright.local.node.network import Keeping
from kubewright.local.node.runtime import (
    ContainerConfig,
    Mount,
    PodIdentity,
    RunningContainer,
    Sandbox,
    SecuritySettings,
)

UID = "4f2c"
SCRIPTS = {
    "clock": "i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.1; done",
    "short": "while [ ! -e /signals/end ]; do sleep 0.05; done; echo over; exit 7",
}


async def start_pod(runtime: ProcessRuntime, folder: Path) -> tuple[Sandbox, list[Object]]:
    """Start the pod."""
    sandbox = await runtime.create_sandbox(PodIdentity(NamespacedName("ns", "p"), UID, "p"))
    image = await runtime.pull_image("debian:12")
    (folder / "signals").mkdir()
    containers = []
    for name, script in SCRIPTS.items():
        config = ContainerConfig(
            name=name,
            attempt=0,
            image=image,
            argv=["sh", "-c", script],
            env=image.env,
            workdir="/",
            security=SecuritySettings(),
            log=folder / f"{name}.log",
            mounts=[Mount("/signals", folder / "signals")],
        )
        container = await runtime.start_container(sandbox, config)
        containers.append(describe(runtime, container))
    return sandbox, containers


def describe(runtime: ProcessRuntime, container: RunningContainer) -> Object:
    """Describe a container for the report."""
    return {
        "name": container.config.name,
        "id": container.id,
        "pid": runtime.pid_of(container),
        "started": container.started_at.isoformat(),
        "exit": container.exited.result().exit_code if container.exited.done() else None,
    }


async def settle(containers: list[RunningContainer]) -> None:
    """Wait a moment for ends that are being collected."""
    await asyncio.wait([c.exited for c in containers], timeout=0.5)


async def main(folder: Path, verb: str) -> None:
    """Run until standard input ends."""
    keeping = Keeping(folder / "holder.sock", 60.0)
    runtime = ProcessRuntime(folder, keeping=keeping)
    await runtime.start()
    report: Object = {"enter": runtime.enter_command(), "network": runtime.pod_cidr}
    if verb == "start":
        sandbox, report["containers"] = await start_pod(runtime, folder)
        report["address"] = sandbox.address
    elif pod := runtime.adopt({"metadata": {"uid": UID}}):
        await settle(pod.containers)
        report["address"] = pod.sandbox.address
        report["containers"] = [describe(runtime, c) for c in pod.containers]
        running = [c for c in pod.containers if not c.exited.done()]
        result = await runtime.execute(running[0], ["hostname"])
        report["hostname"] = result.output.strip()
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runtime.stop()


if __name__ == "__main__":
    os.environ["PATH"] = search_path()
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
