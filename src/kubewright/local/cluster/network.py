"""Run a command inside the network of a cluster's pods."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from kubewright.api.errors import ConfigurationError
from kubewright.local.cluster.directory import ClusterDirectory


def execute(directory: ClusterDirectory, node: str | None, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a command that runs in the pod network of a node.

    Files, users and environment are those of the caller; only addresses are those of the pods.

    Raises:
        ConfigurationError: there is no such node, its pods are simulated, or the command is not
            there.
    """
    # The node's modules are imported only where a node is asked for.
    from kubewright.local.node import list_nodes_to_enter

    known = {facts["name"]: facts for facts in list_nodes_to_enter(directory.node_state)}
    facts = known.get(node) if node else next(iter(known.values()), None)
    if not known:
        raise ConfigurationError(
            f"cluster {directory.name!r} has no nodes: there is no pod network to enter"
        )
    if facts is None:
        raise ConfigurationError(
            f"cluster {directory.name!r} has no node {node!r}: known are {', '.join(known)}"
        )
    enter: list[str] = facts["enter"]
    if not enter:
        raise ConfigurationError(
            f"the pods of {facts['name']} are simulated: there is no network to enter"
        )
    try:
        os.execvp(enter[0], [*enter, "--", *arguments])
    except OSError as error:
        raise ConfigurationError(f"cannot run {enter[0]}: {error.strerror}") from error
