"""Recordings of cases: making them, and holding a run against them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from conformance.case import Case
from conformance.case_run import NOT_REACHED
from conformance.comparison import canonical, differences
from kubewright.api.resource import Object

RunCase = Callable[[Case], Awaitable[list[Object]]]
"""Runs a case and returns its normalised exchanges."""

_LONGEST_VALUE = 160
_MOST_REASONS = 8


class Verdict(msgspec.Struct, frozen=True):
    """How one case went: exchanges that were recorded, how many agree, and what differs."""

    exchanges: int
    agree: int
    differences: list[str]


def recording_of(case: Case, folder: Path) -> Path:
    """Return where the recording of a case lies."""
    return folder / f"{case.name}.json"


async def check_case(case: Case, folder: Path, run: RunCase) -> Verdict:
    """Run a case and compare it with its recording.

    Where it cannot be run, all of its exchanges count as wrong.
    """
    recorded: list[Object] = canonical(json.loads(recording_of(case, folder).read_text()))
    try:
        found = await run(case)
    except Exception as error:  # whatever broke the run is what differs: the other cases go on
        return Verdict(len(recorded), 0, _describe_failure(error))
    return compare_exchanges(recorded, found)


def compare_exchanges(recorded: list[Object], found: list[Object]) -> Verdict:
    """Compare exchanges one by one, and describe where they differ."""
    agree, lines = 0, []
    for one, other in zip(recorded, found, strict=False):
        parts = list(differences(_without_step(one), _without_step(other)))
        agree += not parts
        if parts:
            lines.append(f"step {one['step']}: {one['what']}")
        for part in parts:
            lines.append(f"    {part.pointer}")
            lines.append(f"        real {_shorten(part.recorded)}")
            lines.append(f"        ours {_shorten(part.found)}")
    if len(recorded) != len(found):
        lines.append(
            f"{len(recorded)} exchanges were recorded, {len(found)} were run: record the case again"
        )
    return Verdict(len(recorded), agree, lines)


async def record_case(case: Case, folder: Path, run: RunCase) -> list[str]:
    """Run a case twice and write what was answered, if it was the same; return what to print."""
    try:
        first, second = await run(case), await run(case)
    except Exception as error:  # a case that cannot be run is told, and the others are recorded
        return [f"{case.name}: NOT RECORDED, could not run", *_describe_failure(error)]
    reasons = [
        f"{one['what']} {part.pointer}: {_shorten(part.recorded)} / {_shorten(part.found)}"
        for one, other in zip(first, second, strict=False)
        for part in differences(one, other)
    ]
    reasons += [
        f"{one['what']}: {_shorten(one['body'])}"
        for one in first
        if NOT_REACHED in str(one.get("body"))
    ]
    if reasons:
        head = f"{case.name}: NOT RECORDED, two runs on the real server differ:"
        return [head, *reasons[:_MOST_REASONS]]
    file = recording_of(case, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(first, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    return [f"{case.name}: {len(first)} recorded"]


def _without_step(exchange: Object) -> Object:
    return {name: value for name, value in exchange.items() if name != "step"}


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}…"


def _describe_failure(error: Exception) -> list[str]:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return [f"case could not run: {error!r}", f"at {Path(place.filename).name}:{place.lineno}"]
