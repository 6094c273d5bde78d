"""`kubewright generate`: write files from an operator's code."""

from __future__ import annotations

import argparse

from kubewright.cli.command import Commands, HelpFormatter, add_command


def add_to(commands: Commands) -> None:
    """Declare the command and those below it."""
    parser = commands.add_parser(
        "generate",
        help="Write files from an operator's code",
        description="Write files from an operator's code.",
        formatter_class=HelpFormatter,
    )
    generate = parser.add_subparsers(title="available commands", metavar="COMMAND", required=True)
    crd = add_command(
        generate,
        "crd",
        "Print the CustomResourceDefinitions of an operator as YAML",
        print_crds,
        examples="  # Install the kinds of an operator\n"
        "  kubewright generate crd memcached_operator | kubectl apply -f -",
    )
    crd.add_argument("module", metavar="MODULE", help="module or file that defines the operator")


def print_crds(options: argparse.Namespace) -> int:
    """Print the CRDs of all operators that the module defines."""
    import yaml

    from kubewright.cli.program import load_operators

    definitions = [crd for operator in load_operators(options.module) for crd in operator.crds()]
    print(yaml.safe_dump_all(definitions, sort_keys=False, allow_unicode=True), end="")
    return 0
