"""How commands are declared and how they print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeAlias

# argparse gives its type no public name, and it is generic for type checkers only.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command: TypeAlias = Callable[[argparse.Namespace], int]


def add_command(
    commands: Commands, name: str, short: str, command: Command, *, examples: str = ""
) -> argparse.ArgumentParser:
    """Declare a command: its one-line help, its function, and examples with a `#` comment each."""
    parser = commands.add_parser(
        name,
        help=short,
        description=f"{short}.",
        epilog=f"Examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `-o json`."""
    parser.add_argument("-o", "--output", choices=["json"], help="output format instead of text")


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under upper-case titles, three spaces apart, as kubectl does."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )
    return "\n".join(lines)
