"""Plays a session: runs its commands one after the other and keeps what they print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

from conformance.sessions.binary import Binary
from conformance.sessions.normal_form import normalize
from conformance.sessions.session import SESSIONS, Session, Step, identify_commands

_COMMAND_SECONDS = 30.0
_UNTIL_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_TIMED_OUT = 124  # as timeout(1) says it


class Answer(msgspec.Struct, frozen=True):
    """What one command printed, in normal form, and its exit code."""

    command: str
    code: int
    output: str
    errors: str


class Stage(msgspec.Struct, frozen=True):
    """Where a session is played: the client, the cluster, a folder of its own."""

    binary: Binary
    kubeconfig: Path
    folder: Path

    @property
    def work(self) -> Path:
        """The folder where commands run; files of the sessions are in it."""
        return self.folder / "work"

    def environment(self) -> dict[str, str]:
        """Return an environment in which nothing of the caller's configuration is seen."""
        home = str(self.folder / "home")
        return {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TMPDIR": "/tmp",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": f"{home}/cache",
            "HELM_MAX_HISTORY": "30",
        }


def play_session(session: Session, stage: Stage) -> list[Answer]:
    """Run all steps that are meant for the binary and return their answers, in order."""
    (stage.folder / "home").mkdir(parents=True)
    shutil.copytree(SESSIONS / "files", stage.work)
    steps = session.steps_for(stage.binary.version)
    commands = identify_commands(steps)
    return [_answer(command, step, stage) for command, step in zip(commands, steps, strict=True)]


def _answer(command: str, step: Step, stage: Stage) -> Answer:
    deadline = time.monotonic() + _UNTIL_SECONDS
    result = _run(step, stage)
    while step.until and not re.search(step.until, result.stdout) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        result = _run(step, stage)
    places = [(str(stage.work), "<folder>"), (str(stage.folder / "home"), "<home>")]
    lines = normalize(result.stdout, places).splitlines()
    if step.last_line:
        lines = lines[-1:]
    if step.sort:
        lines.sort()
    errors = normalize(result.stderr, places)
    return Answer(command, result.returncode, "\n".join(lines), errors)


def _run(step: Step, stage: Stage) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(step.run)
    command = [str(stage.binary.folder / program), *arguments]
    environment = stage.environment() | step.environment
    try:
        return subprocess.run(
            command,
            input=step.stdin,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            cwd=stage.work,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        ended = f"ended after {_COMMAND_SECONDS} s"
        return subprocess.CompletedProcess(command, _TIMED_OUT, "", ended)
