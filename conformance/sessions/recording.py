"""Recordings: what each binary printed on the real server, and how another run differs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from conformance.sessions.binary import Binary
from conformance.sessions.play import Answer
from conformance.sessions.session import SESSIONS, Session

RECORDINGS = SESSIONS / "recordings"


class Difference(msgspec.Struct, frozen=True):
    """A command that answered otherwise than recorded, and the lines that differ."""

    command: str
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join([f"$ {self.command}", *self.lines])


class KnownDifference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A difference that is left, and why; of all versions unless some are named."""

    session: str
    commands: list[str]
    reason: str
    versions: list[str] = []


def recording_path(session: Session, binary: Binary, folder: Path = RECORDINGS) -> Path:
    """Return where the recording of a session with one binary lies."""
    return folder / session.name / f"{binary.version}.yaml"


def load_recording(path: Path) -> list[Answer]:
    """Read a recording."""
    return msgspec.convert(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader), list[Answer])


def save_recording(path: Path, answers: Sequence[Answer]) -> None:
    """Write a recording, one readable block for each output."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.to_builtins(answers)
    path.write_text(
        yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000), "utf-8"
    )


def load_known_differences(session: Session, binary: Binary) -> set[str]:
    """Return the commands that are listed as differing for this session and binary."""
    text = (SESSIONS / "differences.yaml").read_text("utf-8")
    known = msgspec.convert(yaml.safe_load(text) or [], list[KnownDifference])
    return {
        command
        for entry in known
        if entry.session == session.name
        and (not entry.versions or binary.version in entry.versions)
        for command in entry.commands
    }


def compare(recorded: Sequence[Answer], played: Sequence[Answer]) -> list[Difference]:
    """Return the commands whose answers differ, and those that only one side has."""
    answers = {answer.command: answer for answer in played}
    missing = [
        Difference(answer.command, ["not recorded: python -m conformance.sessions record"])
        for answer in played
        if answer.command not in {recording.command for recording in recorded}
    ]
    return [d for r in recorded if (d := _compare_one(r, answers.get(r.command)))] + missing


def _compare_one(recorded: Answer, played: Answer | None) -> Difference | None:
    if played is None:
        return Difference(recorded.command, ["recorded, and not in the session"])
    if recorded == played:
        return None
    before, after = _lines(recorded), _lines(played)
    lines = [
        line
        for line in difflib.unified_diff(before, after, "recorded", "played", lineterm="", n=1)
        if not line.startswith(("---", "+++"))
    ]
    return Difference(recorded.command, lines)


def _lines(answer: Answer) -> list[str]:
    errors = [f"stderr: {line}" for line in answer.errors.splitlines()]
    return [*answer.output.splitlines(), *errors, f"exit code {answer.code}"]


class _Dumper(yaml.CSafeDumper):
    """Writes text of several lines as a literal block."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
