"""`kubewright diff`: tell what an operator would change in a cluster, and change nothing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kubewright.api.errors import ConfigurationError, NotFound
from kubewright.cli.command import Commands, add_cluster_flags, add_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubewright.api.resource import NamespacedName, Resource
    from kubewright.runtime.preview import Preview

EXAMPLES = """\
  # What would this version of the operator do to the current cluster?
  kubewright diff memcached_operator

  # Only to one object
  kubewright diff memcached_operator memcached/cache -n team-a

  # In a pipeline: exit with 3 when something would change
  kubewright diff memcached_operator --exit-code"""

WOULD_CHANGE = 3
"""The exit code of --exit-code."""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "diff",
        "Show what an operator would change in a cluster, without changing it",
        diff,
        examples=EXAMPLES,
    )
    parser.add_argument("module", metavar="MODULE", help="dotted module name, or a path to a file")
    parser.add_argument(
        "object", metavar="KIND/NAME", nargs="?", help="only for this object (default: all)"
    )
    add_cluster_flags(parser, namespace="look only into this namespace")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help=f"exit with {WOULD_CHANGE} when something would change",
    )


def diff(options: argparse.Namespace) -> int:
    """Print the plan of every object as a diff; nothing where nothing would change."""
    import asyncio  # here and not above: every other command would wait for it

    selection = _Selection(options.object)
    changes = asyncio.run(_print_previews(options, selection))
    if options.object and not selection.has_found:
        raise NotFound(f"there is no {options.object} that the operator manages")
    if not changes:
        print("nothing would change", file=sys.stderr)
    return WOULD_CHANGE if changes and options.exit_code else 0


class _Selection:
    """The object that KIND/NAME means, by kind, plural or full name of the resource."""

    def __init__(self, target: str | None) -> None:
        self._kind, slash, self._name = (target or "").partition("/")
        if target is not None and not (self._kind and slash and self._name):
            raise ConfigurationError(f"{target}: write it as KIND/NAME")
        self.has_found = False

    def __call__(self, resource: Resource, key: NamespacedName) -> bool:
        names = {resource.kind.lower(), resource.plural, resource.group_resource}
        wanted = not self._kind or (self._kind.lower() in names and key.name == self._name)
        self.has_found |= wanted
        return wanted


async def _print_previews(options: argparse.Namespace, selection: _Selection) -> int:
    from kubewright.cli.program import load_operators
    from kubewright.client import KubeConfig, connect
    from kubewright.runtime.preview import preview_operator

    operators = load_operators(options.module)
    changes = 0
    async with connect(KubeConfig.load(options.kubeconfig, options.context)) as client:
        for operator in operators:
            previews = preview_operator(
                client, operator, namespaces=options.namespaces, select=selection
            )
            async for preview in previews:
                if not preview.is_empty:
                    changes += 1
                    print("\n".join(tell(preview)))
    return changes


def tell(preview: Preview) -> Iterator[str]:
    """Write a preview as lines: comments, and below each step its diff."""
    yield f"# {preview.resource.kind} {preview.key}"
    if preview.problem:
        yield f"# would stall: {_one_line(preview.problem)}"
    for change in preview.changes:
        yield f"# {_one_line(str(change.step))}"
        if change.problem:
            yield f"# the API server refuses it: {_one_line(change.problem)}"
        if change.diff:
            yield change.diff


def _one_line(text: str) -> str:
    return " ".join(text.split())
