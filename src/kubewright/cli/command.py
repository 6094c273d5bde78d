"""How commands are declared and how they print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

# argparse gives its type no public name, and it is generic for type checkers only.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command: TypeAlias = Callable[[argparse.Namespace], int]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Lay out help as kubectl does: capital headings, commands without a line for their metavar."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Begin with `Usage:`."""
        # An empty prefix is argparse's own, where it builds the names of commands below others.
        heading = "Usage:\n  " if prefix is None else prefix
        super().add_usage(usage, actions, groups, heading)

    def start_section(self, heading: str | None) -> None:
        """Begin a section with a capital."""
        super().start_section(heading and heading[0].upper() + heading[1:])

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        if isinstance(action, argparse._SubParsersAction):
            text = text.partition("\n")[2]
        return text


def add_command(
    commands: Commands, name: str, short: str, command: Command, *, examples: str = ""
) -> argparse.ArgumentParser:
    """Declare a command: its one-line help, its function, and examples with a `#` comment each."""
    parser = commands.add_parser(
        name,
        help=short,
        description=f"{short}.",
        epilog=f"Examples:\n{examples}" if examples else None,
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `-o json`."""
    parser.add_argument("-o", "--output", choices=["json"], help="output format instead of text")


def add_cluster_flags(parser: argparse.ArgumentParser, *, namespace: str) -> None:
    """Declare which cluster and which namespaces; `namespace` says what one is for."""
    parser.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig file (default: as kubectl finds it)"
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: its current one)")
    parser.add_argument(
        "-n",
        "--namespace",
        action="append",
        dest="namespaces",
        help=f"{namespace}; may be given several times (default: all)",
    )


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under upper-case titles, three spaces apart, as kubectl does."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )
    return "\n".join(lines)
