"""What a local cluster is started with."""

from __future__ import annotations

from pathlib import Path

import msgspec


class ClusterOptions(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """What a local cluster is started with.

    `controllers` are names of controllers, `nodes` the number of nodes. `data_dir` keeps the
    objects over restarts; without it they live in memory. `port` 0 takes a free one.
    """

    name: str = "default"
    controllers: tuple[str, ...]
    nodes: int = 1
    simulated: bool = False
    data_dir: Path | None = None
    port: int = 0
    kubeconfig: Path | None = None
