"""`kubewright run`: run the operators of a program."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.cli.command import Commands, add_command

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.runtime import Manager, Operator

EXAMPLES = """\
  # Run the operator of a package against the current kubeconfig
  kubewright run memcached_operator

  # Run a single file in one namespace, installing its CRDs first
  kubewright run my_operator.py --install-crds -n team-a"""

_logger = logging.getLogger("kubewright")


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "run", "Run the operators of a module or file", run, examples=EXAMPLES
    )
    parser.add_argument("module", metavar="MODULE", help="dotted module name, or a path to a file")
    parser.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig file (default: as kubectl finds it)"
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: its current one)")
    parser.add_argument(
        "-n",
        "--namespace",
        action="append",
        dest="namespaces",
        help="watch only this namespace; may be given several times (default: all)",
    )
    parser.add_argument(
        "--install-crds", action="store_true", help="apply the operators' CRDs before they start"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log every reconcile and request"
    )


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, then finish the work in hand."""
    import asyncio  # here and not above: every other command would wait for it

    from kubewright.cli.program import load_operators

    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname).1s %(name)s %(message)s",
        stream=sys.stderr,
    )
    operators = load_operators(options.module)
    return asyncio.run(_run(operators, options))


async def _run(operators: list[Operator], options: argparse.Namespace) -> int:
    from kubewright.client import KubeConfig, connect
    from kubewright.runtime.signals import run_until_signal

    config = KubeConfig.load(options.kubeconfig, options.context)
    async with connect(config) as client:
        # Fail now, with a sentence, where the kubeconfig points nowhere.
        await client.request("GET", "/version")
        await run_until_signal(_run_manager(operators, client, options))
    return 0


async def _run_manager(
    operators: list[Operator], client: Client, options: argparse.Namespace
) -> None:
    import asyncio

    from kubewright.runtime import Manager

    manager = Manager(client, namespaces=options.namespaces)
    for operator in operators:
        if options.install_crds:
            await operator.ensure_crds(client)
        operator.add_to(manager)
    async with asyncio.TaskGroup() as group:
        group.create_task(_announce(manager, operators))
        group.create_task(manager.run())


async def _announce(manager: Manager, operators: list[Operator]) -> None:
    await manager.wait_ready()
    for operator in operators:
        _logger.info("operator %s is running", operator.name)
