"""What a local cluster is started with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubewright.api.errors import ConfigurationError


class ClusterOptions(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """What a local cluster is started with.

    `controllers` are names of controllers, `nodes` the number of nodes. `metrics_server` adds the
    metrics API where there are any. `data_dir` keeps the objects over restarts; without it they
    live in memory. `port` 0 takes a free one.
    """

    name: str = "default"
    controllers: tuple[str, ...] = ()
    metrics_server: bool = True
    nodes: int = 1
    simulated: bool = False
    data_dir: Path | None = None
    port: int = 0
    kubeconfig: Path | None = None

    @property
    def serves_metrics(self) -> bool:
        """Tell whether there is a metrics API: without nodes there is nothing to measure."""
        return self.metrics_server and self.nodes > 0

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= 100:
            raise ConfigurationError(f"--nodes {self.nodes}: use a number from 0 to 100")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"--port {self.port}: use a number from 0 to 65535")
