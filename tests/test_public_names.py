"""The face of each room: what `__all__` says, frozen.

A name that is added, renamed or removed changes `public_names.txt` in the same commit, where a
reviewer sees it: `python tests/test_public_names.py` writes it anew.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOMS = (
    "kubewright",
    "kubewright.api",
    "kubewright.cache",
    "kubewright.client",
    "kubewright.local.apiserver",
    "kubewright.local.cluster",
    "kubewright.local.controllers",
    "kubewright.local.node",
    "kubewright.local.store",
    "kubewright.runtime",
    "kubewright.telemetry",
    "kubewright.testing",
    "kubewright.webhook",
)
FROZEN = Path(__file__).parent / "public_names.txt"


def public_names(room: str) -> list[str]:
    """Return what a room says is public."""
    names: list[str] = importlib.import_module(room).__all__
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_face_of_the_room_is_frozen(room: str) -> None:
    frozen = [
        line.split()[1] for line in FROZEN.read_text().splitlines() if line.split()[0] == room
    ]

    assert sorted(public_names(room)) == frozen


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there(room: str) -> None:
    module = importlib.import_module(room)

    assert [name for name in public_names(room) if not hasattr(module, name)] == []


def write() -> None:
    """Write the names as they are now."""
    lines = [f"{room} {name}\n" for room in ROOMS for name in sorted(public_names(room))]
    FROZEN.write_text("".join(lines))


if __name__ == "__main__":
    write()
