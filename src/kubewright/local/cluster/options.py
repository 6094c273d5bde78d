"""What a local cluster is started with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubewright.api.errors import ConfigurationError


class ClusterOptions(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """What a local cluster is started with.

    `controllers` are names of controllers, `nodes` the number of nodes. `data_dir` keeps the
    objects over restarts; without it they live in memory. `port` 0 takes a free one.
    """

    name: str = "default"
    controllers: tuple[str, ...] = ()
    nodes: int = 1
    simulated: bool = False
    data_dir: Path | None = None
    port: int = 0
    kubeconfig: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= 100:
            raise ConfigurationError(f"--nodes {self.nodes}: use a number from 0 to 100")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"--port {self.port}: use a number from 0 to 65535")


def select_controllers(choice: str) -> tuple[str, ...]:
    """Return the names of the controllers that `all`, `none` or a comma-separated list means.

    A name with a leading `-` is left out of all the others.

    Raises:
        ConfigurationError: a name is unknown; the message lists the known ones.
    """
    # The controllers import the whole runtime; a status command must not pay for that.
    from kubewright.local.controllers import CONTROLLERS

    known = tuple(CONTROLLERS)
    chosen: set[str] = set()
    words = [word.strip() for word in choice.split(",") if word.strip()]
    if words and all(word.startswith("-") for word in words):
        chosen.update(known)
    for word in words:
        name = word.removeprefix("-")
        if name in ("all", "none"):
            chosen = set(known) if name == "all" else set()
        elif name not in known:
            raise ConfigurationError(
                f"there is no controller {name!r}: known are {', '.join(sorted(known))}"
            )
        elif word.startswith("-"):
            chosen.discard(name)
        else:
            chosen.add(name)
    return tuple(name for name in known if name in chosen)
