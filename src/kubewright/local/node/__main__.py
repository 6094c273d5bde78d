"""`python -m kubewright.local.node`: a node as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import hashlib
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from kubewright.api.errors import ConfigurationError
from kubewright.client import Client, KubeConfig, connect
from kubewright.local.network.service_routes import Backend
from kubewright.local.node.detection import detect_runtime, search_path
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.local.node.image.store import default_folder
from kubewright.local.node.network import Keeping
from kubewright.local.node.node import LOOPBACK, Node, RuntimeLost
from kubewright.local.node.process_runtime import ProcessRuntime
from kubewright.local.node.runtime import PodRuntime
from kubewright.local.node.simulated_runtime import SimulatedRuntime

KEEP_SECONDS = 300
"""How long pods wait for a node that was killed to be started again."""

POD_REQUESTS_AT_ONCE = 16
"""For all pods of a node together; a hundred that start at once send some thousand requests. The
lease goes by another client that waits for none of them: else the node is taken for dead."""


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m kubewright.local.node", description=__doc__)
    parser.add_argument("--kubeconfig", help="default: as kubectl finds it")
    parser.add_argument("--name", default="node-1", help="name of the Node")
    parser.add_argument("--dir", type=Path, help="volumes, logs, images; default: a temporary one")
    parser.add_argument("--volumes", type=Path, help="persistent volumes; default: DIR/volumes")
    parser.add_argument(
        "--images", type=Path, help="images, shared by nodes; default: in this user's cache"
    )
    parser.add_argument("--address", default=LOOPBACK, help="where the log endpoint listens")
    parser.add_argument("--pod-cidr", help="a /24 for pods; default: a free one in 10.244.0.0/16")
    parser.add_argument(
        "--any-pod-cidr", action="store_true", help="take another one where --pod-cidr is taken"
    )
    parser.add_argument("--simulated", action="store_true", help="run no processes")
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="stop when standard input ends"
    )
    parser.add_argument(
        "--keep-seconds",
        type=int,
        default=KEEP_SECONDS,
        help="how long pods outlive a node process that is killed, and wait for the next one that "
        "is given the same --dir; 0: they end with it",
    )
    parser.add_argument(
        "--lifeline", type=int, help="a descriptor: when this pipe closes, kept pods end at once"
    )
    parser.add_argument(
        "--endpoint-token-file", type=Path, help="bearer token that the API server uses for logs"
    )
    return parser.parse_args(argv)


async def build_runtime(options: argparse.Namespace, folder: Path) -> PodRuntime:
    """Build the runtime that is asked for.

    Raises:
        ConfigurationError: this machine cannot run pods as processes; says what to do.
    """
    if options.simulated:
        digest = hashlib.sha256(options.name.encode()).digest()
        return SimulatedRuntime(
            pod_cidr=options.pod_cidr or f"10.{128 | digest[0]}.{digest[1] & 240}.0/20"
        )
    detection = await detect_runtime()
    if not detection.processes:
        raise ConfigurationError(f"{detection.reason}; or start the node with --simulated")
    keeping = None
    if options.keep_seconds and options.dir is not None:
        keeping = Keeping(folder / "holder.sock", options.keep_seconds, options.lifeline)
    images = options.images or default_folder()
    return ProcessRuntime(
        folder,
        pod_cidr=options.pod_cidr,
        is_any_cidr=options.any_pod_cidr,
        images=images,
        keeping=keeping,
    )


async def find_api_server(url: str) -> Backend | None:
    """Find the address of the API server; None where it has none of IPv4."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(parts.hostname or "", port, family=socket.AF_INET)
    except OSError:
        return None
    return Backend(str(found[0][4][0]), port)


async def run_node(options: argparse.Namespace, folder: Path) -> None:
    """Run a node until SIGTERM or SIGINT."""
    config = KubeConfig.load(options.kubeconfig)
    token = ""
    if options.endpoint_token_file is not None:
        token = (await asyncio.to_thread(options.endpoint_token_file.read_text)).strip()
    runtime = await build_runtime(options, folder)
    async with connect(config, field_manager="kubelet") as heartbeats:
        node = Node(
            Client(
                heartbeats.transport, field_manager="kubelet", max_in_flight=POD_REQUESTS_AT_ONCE
            ),
            options.name,
            runtime,
            folder,
            access=EndpointAccess(config.tls.ca, token),
            address=options.address,
            volumes=options.volumes,
            api_server=await find_api_server(config.server),
            heartbeats=heartbeats,
        )
        task = asyncio.create_task(node.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        if options.exit_with_parent:
            # Nobody writes to it: it ends when the last process that could is gone, in any way.
            loop.add_reader(sys.stdin, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = parse_arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    # A crash in a library written in C is told in the log, with the Python that led to it.
    faulthandler.enable()
    os.environ["PATH"] = search_path()
    with contextlib.ExitStack() as stack:
        folder = options.dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubewright-")))
        try:
            asyncio.run(run_node(options, folder.absolute()))
        except (ConfigurationError, RuntimeLost) as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
