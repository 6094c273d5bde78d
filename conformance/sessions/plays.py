"""Plays sessions on servers of their own, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from conformance.sessions.binary import Binary, installed_binaries
from conformance.sessions.play import Answer, Stage, play_session
from conformance.sessions.servers import serve
from conformance.sessions.session import Session, load_sessions


class Play(msgspec.Struct, frozen=True):
    """A session and the binary that plays it."""

    session: Session
    binary: Binary

    @property
    def name(self) -> str:
        """The binary and the session, such as helm-4.1/helm."""
        return f"{self.binary.name}/{self.session.name}"


def plan_plays(only: str = "") -> list[Play]:
    """Return all sessions with all their binaries, or those with `only` in their name."""
    plays = [
        Play(session, binary)
        for session in load_sessions()
        for binary in installed_binaries()
        if binary.program == session.binary
    ]
    return [play for play in plays if only in play.name]


def play_all(
    plays: Sequence[Play], server: str, folder: Path, *, at_once: int = 3
) -> list[list[Answer]]:
    """Play each on a fresh server and return the answers, in the order of `plays`.

    Three at a time keep two cores busy: where controllers act, a session mostly waits.

    Args:
        plays: what to play.
        server: "local" for ours, "real" for kube-apiserver.
        folder: where servers and sessions keep their files; its path must be short.
        at_once: how many servers run at a time.

    Raises:
        ConfigurationError: a server did not start.
    """
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(lambda play: _play(play, server, folder / play.name), plays))


def _play(play: Play, server: str, folder: Path) -> list[Answer]:
    controllers = play.session.controllers
    with serve(server, folder / "server", controllers=controllers) as kubeconfig:
        return play_session(play.session, Stage(play.binary, kubeconfig, folder))
