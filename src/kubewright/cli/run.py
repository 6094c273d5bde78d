"""`kubewright run`: run the operators of a program."""

from __future__ import annotations

import argparse
import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.cli.command import Commands, add_cluster_flags, add_command
from kubewright.cli.webhooks import Webhooks, add_webhook_flags

if TYPE_CHECKING:
    from kubewright.cli.probes import Probes
    from kubewright.client import Client, KubeConfig
    from kubewright.runtime import LeaderElection, Manager, Operator
    from kubewright.webhook import WebhookServer

EXAMPLES = """\
  # Run the operator of a package against the current kubeconfig
  kubewright run memcached_operator

  # Run a single file in one namespace, installing its CRDs first
  kubewright run my_operator.py --install-crds -n team-a

  # Run one of several replicas in a cluster, with probes and metrics
  kubewright run memcached_operator --leader-elect \\
      --metrics-bind-address :8080 --health-probe-bind-address :8081

  # Serve its webhooks too, from this machine to a local control plane
  kubewright run memcached_operator --webhook-bind-address :9443"""

_logger = logging.getLogger("kubewright")


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "run", "Run the operators of a module or file", run, examples=EXAMPLES
    )
    parser.add_argument("module", metavar="MODULE", help="dotted module name, or a path to a file")
    add_cluster_flags(parser, namespace="watch only this namespace")
    parser.add_argument(
        "--install-crds", action="store_true", help="apply the operators' CRDs before they start"
    )
    _add_manager_flags(parser)
    add_webhook_flags(parser)
    parser.add_argument(
        "--log-format",
        choices=["text", "json"],
        default="text",
        help="how lines are logged: text for people, json for machines (default: text)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log every reconcile and request"
    )


def _add_manager_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that kubebuilder's and the Operator SDK's managers have."""
    parser.add_argument(
        "--leader-elect",
        action="store_true",
        help="work only while holding a Lease: of several replicas, one works",
    )
    parser.add_argument(
        "--leader-election-id", metavar="NAME", help="the Lease (default: the operator's name)"
    )
    parser.add_argument(
        "--leader-election-namespace",
        metavar="NAMESPACE",
        help="where the Lease is (default: the namespace of the kubeconfig, or of the pod)",
    )
    for name, default, what in (
        ("lease-duration", 15, "how long others wait after a leader's last sign of life"),
        ("renew-deadline", 10, "how long a leader goes on without renewing the Lease"),
        ("retry-period", 2, "how often the Lease is renewed, or tried for"),
    ):
        parser.add_argument(
            f"--leader-election-{name}",
            metavar="SECONDS",
            type=_seconds,
            default=timedelta(seconds=default),
            help=f"{what} (default: {default})",
        )
    parser.add_argument(
        "--metrics-bind-address",
        metavar="ADDRESS",
        default="0",
        help="serve /metrics there, such as :8080 (default: 0, nowhere)",
    )
    parser.add_argument(
        "--health-probe-bind-address",
        metavar="ADDRESS",
        default="0",
        help="serve /healthz and /readyz there, such as :8081 (default: 0, nowhere)",
    )
    parser.add_argument(
        "--debug-bind-address",
        metavar="ADDRESS",
        default="127.0.0.1:0",
        help="tell 'kubewright explain' there what was done last, and why; 0 for nowhere "
        "(default: any free port of this machine)",
    )
    parser.add_argument(
        "--traces",
        action="store_true",
        help="send OpenTelemetry traces, as the OTEL_* environment variables say",
    )
    parser.add_argument(
        "--max-concurrent-reconciles",
        metavar="N",
        type=_positive,
        help="objects of a kind in work at once (default: as the operator says)",
    )


def _seconds(text: str) -> timedelta:
    """Read a duration: a number of seconds, also as `15s`."""
    try:
        return timedelta(seconds=float(text.removesuffix("s")))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text}: use a number of seconds, such as 15") from None


def _positive(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text}: use a number from 1 on")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, then finish the work in hand."""
    # Here and not above: every other command would wait for asyncio.
    from kubewright.client import event_loop

    event_loop.calm_collector()
    from kubewright.cli.probes import Probes
    from kubewright.cli.program import load_operators
    from kubewright.telemetry.logs import configure_logging

    probes = Probes.parse(
        options.metrics_bind_address,
        options.health_probe_bind_address,
        options.debug_bind_address,
        service=Path(options.module).stem if options.traces else None,
    )
    level = logging.DEBUG if options.verbose else logging.INFO
    configure_logging(options.log_format, level=level)
    operators = load_operators(options.module)
    return event_loop.run(_run(operators, probes, options))


async def _run(operators: list[Operator], probes: Probes, options: argparse.Namespace) -> int:
    from kubewright.client import KubeConfig, connect
    from kubewright.runtime.signals import run_until_signal

    config = KubeConfig.load(options.kubeconfig, options.context)
    async with connect(config) as client:
        # Fail now, with a sentence, where the kubeconfig points nowhere.
        await client.request("GET", "/version")
        probes.measure(client, config.server)
        election = _build_election(operators, config, options)
        observer = None if probes.metrics is None else probes.metrics.webhooks
        webhooks = Webhooks.parse(options, config.server).build_server(
            operators, client, config, observer
        )
        await run_until_signal(_run_manager(operators, client, probes, election, webhooks, options))
    return 0


def _build_election(
    operators: list[Operator], config: KubeConfig, options: argparse.Namespace
) -> LeaderElection | None:
    if not options.leader_elect:
        return None
    from kubewright.runtime import LeaderElection

    return LeaderElection(
        options.leader_election_id or "-".join(operator.name for operator in operators),
        options.leader_election_namespace or config.namespace,
        lease_duration=options.leader_election_lease_duration,
        renew_deadline=options.leader_election_renew_deadline,
        retry_period=options.leader_election_retry_period,
    )


async def _run_manager(
    operators: list[Operator],
    client: Client,
    probes: Probes,
    election: LeaderElection | None,
    webhooks: WebhookServer | None,
    options: argparse.Namespace,
) -> None:
    import asyncio

    from kubewright.runtime import Manager

    manager = Manager(
        client,
        namespaces=options.namespaces,
        leader_election=election,
        max_concurrent_reconciles=options.max_concurrent_reconciles,
        observer=probes.observer,
    )
    if webhooks is not None:
        manager.add(webhooks, needs_leader_election=False)
    # Probes are answered from the first moment to the last: the drain at the end, too.
    async with probes.serve(manager):
        if options.install_crds:
            await _install_crds(operators, client, webhooks)
        for operator in operators:
            operator.add_to(manager)
        async with asyncio.TaskGroup() as group:
            group.create_task(_announce(manager, operators))
            group.create_task(manager.run())


async def _install_crds(
    operators: list[Operator], client: Client, webhooks: WebhookServer | None
) -> None:
    conversion = None
    if webhooks is not None:
        await webhooks.prepare_conversions()
        conversion = webhooks.conversion_config
    for operator in operators:
        await operator.ensure_crds(client, conversion=conversion)


async def _announce(manager: Manager, operators: list[Operator]) -> None:
    await manager.wait_ready()
    for operator in operators:
        _logger.info("operator %s is running", operator.name)
