"""Run the controllers against the API server of a kubeconfig.

python -m kubewright.local.controllers --kubeconfig F [--controllers all|NAME,…]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.local.controllers import CONTROLLERS, add_controllers
from kubewright.runtime.manager import Manager
from kubewright.runtime.signals import run_until_signal

_logger = logging.getLogger("kubewright.local.controllers")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m kubewright.local.controllers")
    parser.add_argument("--kubeconfig", type=Path, help="default: $KUBECONFIG, ~/.kube/config")
    parser.add_argument(
        "--controllers",
        default="all",
        help=f"names with commas between them, -name leaves one out: {', '.join(CONTROLLERS)}",
    )
    parser.add_argument("--root-ca-file", type=Path, help="default: the kubeconfig's CA")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every decision")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname).1s %(name)s %(message)s",
    )
    asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> None:
    config = KubeConfig.load(options.kubeconfig)
    root_ca = options.root_ca_file.read_text() if options.root_ca_file else read_root_ca(config)
    client = connect(config, field_manager="kubewright-controllers")
    manager = Manager(client)
    add_controllers(manager, options.controllers.split(","), root_ca=root_ca)
    try:
        await run_until_signal(_run_manager(manager))
    finally:
        await client.close()


async def _run_manager(manager: Manager) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_tell_ready(manager))
        await manager.run()


async def _tell_ready(manager: Manager) -> None:
    await manager.wait_ready()
    _logger.info("ready")


def read_root_ca(config: KubeConfig) -> str:
    """Return the CA that a kubeconfig trusts, as PEM text; empty where it trusts the system's."""
    return config.tls.ca.decode() if config.tls.ca else ""


if __name__ == "__main__":
    main()
