"""The entry point of the command `kubewright`.

Exit codes: 0 it worked; 1 it did not, and stderr says why; 2 the command line is wrong; 130 it was
interrupted. Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from kubewright.api.errors import KubewrightError, known_causes
from kubewright.cli import diff, explain, generate, local, run, version
from kubewright.cli.command import HelpFormatter


class _Parser(argparse.ArgumentParser):
    """A parser whose errors end as kubectl's do: the fault, and where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\nSee '{self.prog} --help' for help and examples.\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = _Parser(
        prog="kubewright",
        description="Kubernetes operators in Python that provably converge.",
        formatter_class=HelpFormatter,
        epilog="Use 'kubewright COMMAND --help' for more about a command.",
    )
    commands = parser.add_subparsers(title="available commands", metavar="COMMAND", required=True)
    for module in (local, run, diff, explain, generate, version):
        module.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except (KubewrightError, ExceptionGroup) as error:
        for known in known_causes(error):
            print(f"error: {known}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output is gone, as in `kubewright … | head`: nobody is left to tell.
        sys.stderr.close()
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
