"""Sessions: the commands that are run on two servers and must print the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import yaml

SESSIONS = Path(__file__).parent


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command.

    `run` is the command line, split as a shell would; its first word is kubectl or helm.
    `since` and `before` are versions of the session's binary: the step runs from the first and
    up to, not with, the second.
    `until` is a regular expression: the command is repeated until what it prints matches, for what
    a controller does in its own time. `last_line` compares no more than the last line of the
    output, for progress that differs from run to run; `sort` compares the lines without order.
    """

    run: str
    stdin: str = ""
    environment: dict[str, str] = {}
    since: str = ""
    before: str = ""
    until: str = ""
    last_line: bool = False
    sort: bool = False


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of steps for the versions of one binary, in order, on a fresh cluster.

    With `controllers`, controllers and one node with simulated pods run beside the API server.
    """

    about: str
    binary: str
    steps: list[Step]
    controllers: bool = False
    name: str = ""

    def steps_for(self, version: str) -> list[Step]:
        """Return what is run with a version of the binary, such as 4.1."""
        return [step for step in self.steps if _is_meant_for(step, version)]


def load_sessions() -> list[Session]:
    """Return all sessions, by name.

    Raises:
        msgspec.ValidationError: a file has an unknown or a missing field.
    """
    return [_load(path) for path in sorted(SESSIONS.glob("*.session.yaml"))]


def identify_commands(steps: list[Step]) -> list[str]:
    """Name each step by its command line, and by a number from the second of the same line on."""
    seen: Counter[str] = Counter()
    names = []
    for step in steps:
        line = " ".join(step.run.split())
        seen[line] += 1
        names.append(line if seen[line] == 1 else f"{line} #{seen[line]}")
    return names


def _load(path: Path) -> Session:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    name = path.name.removesuffix(".session.yaml")
    return msgspec.convert({**data, "name": name}, Session)


def _is_meant_for(step: Step, version: str) -> bool:
    number = _parse_version(version)
    return (not step.since or number >= _parse_version(step.since)) and (
        not step.before or number < _parse_version(step.before)
    )


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
