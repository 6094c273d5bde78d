"""`kubewright local`: start, show and stop local clusters."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kubewright.api.errors import ConfigurationError
from kubewright.cli import local_image
from kubewright.cli.command import (
    Commands,
    HelpFormatter,
    add_command,
    add_output_flag,
    format_table,
)

if TYPE_CHECKING:
    from kubewright.local.cluster.directory import ClusterRecord

UP_EXAMPLES = """\
  # Start a control plane with one node, and use it
  kubewright local up
  export KUBECONFIG=$(kubewright local kubeconfig)

  # Three nodes whose pods are simulated, beside the first cluster
  kubewright local up --name three --nodes 3 --simulated

  # An API server alone, whose objects survive restarts
  kubewright local up --controllers none --nodes 0 --data-dir ./data"""


def add_to(commands: Commands) -> None:
    """Declare the command and those below it."""
    parser = commands.add_parser(
        "local",
        help="Run a Kubernetes control plane on this machine",
        description="Run a Kubernetes control plane on this machine: no Docker, no downloads.",
        formatter_class=HelpFormatter,
    )
    local = parser.add_subparsers(title="available commands", metavar="COMMAND", required=True)
    _add_up(local)
    local_image.add_to(local)
    status = add_command(local, "status", "Show the running clusters", show_status)
    status.add_argument("--name", help="show only this cluster; exit code 1 if it does not run")
    add_output_flag(status)
    down = add_command(local, "down", "Stop a cluster and all that it started", stop)
    _add_name(down)
    down.add_argument("--all", action="store_true", help="stop all clusters")
    path = add_command(local, "kubeconfig", "Print the path of a cluster's kubeconfig", print_path)
    _add_name(path)
    enter = add_command(
        local,
        "exec",
        "Run a command inside the network of a cluster's pods",
        execute,
        examples="  # Reach a pod by its address\n  kubewright local exec -- nc 10.244.0.2 11211",
    )
    _add_name(enter)
    enter.add_argument("--node", help="run in this node's network; default: the first node")
    enter.add_argument("arguments", nargs="+", metavar="COMMAND", help="the command, after --")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="name of the cluster (default: default)")


def _add_up(local: Commands) -> None:
    up = add_command(
        local, "up", "Start a cluster and return when it is ready", start, examples=UP_EXAMPLES
    )
    _add_name(up)
    up.add_argument(
        "--foreground", action="store_true", help="stay, print a line when ready, stop at Ctrl-C"
    )
    up.add_argument(
        "--controllers",
        default="all",
        metavar="all|none|NAME,…",
        help="controllers to run, and metrics-server; all,-NAME leaves one out (default: all)",
    )
    up.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="number of nodes (default: 1)"
    )
    up.add_argument(
        "--simulated", action="store_true", help="simulate pods: no processes are started"
    )
    up.add_argument("--data-dir", type=Path, metavar="D", help="keep the objects in this folder")
    up.add_argument("--port", type=int, default=0, metavar="P", help="port (default: a free one)")
    up.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="write the admin kubeconfig here"
    )
    add_output_flag(up)


def start(options: argparse.Namespace) -> int:
    """Start a cluster, in the background or in the foreground."""
    from kubewright.local.cluster import ClusterOptions, daemon
    from kubewright.local.controllers.names import select_controllers, selects_metrics_server

    if not options.controllers:
        raise ConfigurationError("--controllers is empty: use all, none, or names")
    names = [] if options.controllers == "none" else options.controllers.split(",")
    cluster = ClusterOptions(
        name=options.name,
        controllers=tuple(select_controllers(names)),
        metrics_server=selects_metrics_server(names),
        nodes=options.nodes,
        simulated=options.simulated,
        data_dir=options.data_dir and options.data_dir.absolute(),
        port=options.port,
        kubeconfig=options.kubeconfig and options.kubeconfig.absolute(),
    )
    if options.foreground:
        from kubewright.local.cluster import supervisor

        return supervisor.run(cluster, lambda record: _print_started(record, options.output))
    _print_started(daemon.start(cluster), options.output)
    return 0


def _print_started(record: ClusterRecord, output: str | None) -> None:
    if output == "json":
        import msgspec

        print(msgspec.json.encode(record).decode(), flush=True)
        return
    nodes = f", {len(record.nodes)} node(s) with {record.runtime} pods" if record.nodes else ""
    print(f"cluster {record.name!r} is ready at {record.server}{nodes}")
    if record.note:
        print(f"pods are simulated: {record.note}", file=sys.stderr)
    print(f"export KUBECONFIG={record.kubeconfig}", flush=True)


def show_status(options: argparse.Namespace) -> int:
    """Print the running clusters."""
    from kubewright.local.cluster.directory import ClusterDirectory, list_directories

    some = [ClusterDirectory(options.name)] if options.name else list_directories()
    records = [record for directory in some if (record := directory.read_record())]
    if options.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(records)).decode())
    elif records:
        header = ["NAME", "SERVER", "NODES", "PODS", "CONTROLLERS", "PID", "KUBECONFIG"]
        print(format_table(header, [_status_row(record) for record in records]))
    else:
        nothing = f"cluster {options.name!r} is not running" if options.name else "no cluster runs"
        print(nothing, file=sys.stderr)
    return 1 if options.name and not records else 0


def _status_row(record: ClusterRecord) -> list[str]:
    return [
        record.name,
        record.server,
        str(len(record.nodes)),
        record.runtime or "<none>",
        str(len(record.controllers)),
        str(record.pid),
        record.kubeconfig,
    ]


def stop(options: argparse.Namespace) -> int:
    """Stop one cluster, or all."""
    from kubewright.local.cluster import daemon
    from kubewright.local.cluster.directory import ClusterDirectory, list_directories

    some = list_directories() if options.all else [ClusterDirectory(options.name)]
    for directory in some:
        if daemon.stop(directory):
            print(f"cluster {directory.name!r} stopped")
        elif not options.all:
            print(f"cluster {directory.name!r} is not running", file=sys.stderr)
    return 0


def print_path(options: argparse.Namespace) -> int:
    """Print where the kubeconfig of a running cluster is."""
    print(_running(options.name).kubeconfig)
    return 0


def execute(options: argparse.Namespace) -> NoReturn:
    """Replace this process by a command inside the network of a node's pods."""
    from kubewright.local.cluster import ClusterDirectory, network

    _running(options.name)
    network.execute(ClusterDirectory(options.name), options.node, options.arguments)


def _running(name: str) -> ClusterRecord:
    from kubewright.local.cluster.directory import ClusterDirectory

    record = ClusterDirectory(name).read_record()
    if record is None:
        raise ConfigurationError(
            f"cluster {name!r} is not running: start it with 'kubewright local up --name {name}'"
        )
    return record
