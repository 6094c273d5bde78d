"""Faults of a user's function: told with the place where they happened."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parent.parent)


def describe_fault(error: BaseException) -> str:
    """Write what went wrong and where: `KeyError: 'x' (memcached_operator/rules.py, line 12)`.

    The place is the deepest line of the file whose function was called: where a library raises,
    what helps is the line that called it.
    """
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = _find_place(traceback.extract_tb(error.__traceback__))
    return f"{what} ({place})" if place else what


def describe_frame(frame: FrameType) -> str:
    """Write where a function is at this moment; empty where it is none of a user's."""
    return _find_place(traceback.extract_stack(frame))


def _find_place(frames: Iterable[traceback.FrameSummary]) -> str:
    # Below the last line of ours begins what the user wrote.
    outside: list[traceback.FrameSummary] = []
    for frame in frames:
        outside = [] if frame.filename.startswith(_PACKAGE) else [*outside, frame]
    if not outside:
        return ""
    deepest = [frame for frame in outside if frame.filename == outside[0].filename][-1]
    file = "/".join(Path(deepest.filename).parts[-2:])
    return f"{file}, line {deepest.lineno}"
