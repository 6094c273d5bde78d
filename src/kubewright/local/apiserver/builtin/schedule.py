"""Check of cron schedules, with the wording of the parser that the API server uses."""

from __future__ import annotations

import re

import msgspec


class _Bounds(msgspec.Struct, frozen=True):
    """The numbers of one field of a schedule, and their names."""

    low: int
    high: int
    names: dict[str, int] = {}


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    _Bounds(0, 6, {name: index for index, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_ZONE = re.compile(r"(?:CRON_)?TZ=\S+ +")
_EVERY = re.compile(r"@every (?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")


def find_schedule_fault(text: str) -> str | None:
    """Return what is wrong with a cron schedule, or None."""
    schedule = text[match.end() :] if (match := _ZONE.match(text)) else text
    if schedule.startswith("@"):
        if schedule in _DESCRIPTORS or _EVERY.fullmatch(schedule):
            return None
        return f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, bounds in zip(parts, _FIELDS, strict=True):
        for item in re.split(",", part):
            if item and (fault := _find_range_fault(item, bounds)):
                return fault
    return None


def _find_range_fault(text: str, bounds: _Bounds) -> str | None:
    head, *steps = text.split("/")
    if len(steps) > 1:
        return f"too many slashes: {text}"
    start, *ends = head.split("-")
    if len(ends) > 1:
        return f"too many hyphens: {text}"
    low, high = bounds.low, bounds.high
    if start not in ("*", "?"):
        try:
            low = _number(start, bounds)
            high = _number(ends[0], bounds) if ends else low
        except ValueError as error:
            return str(error)
        if steps and not ends:
            high = bounds.high
    return _compare(text, low, high, steps, bounds)


def _compare(text: str, low: int, high: int, steps: list[str], bounds: _Bounds) -> str | None:
    try:
        step = _number(steps[0], _Bounds(0, 0)) if steps else 1
    except ValueError as error:
        return str(error)
    if low < bounds.low:
        return f"beginning of range ({low}) below minimum ({bounds.low}): {text}"
    if high > bounds.high:
        return f"end of range ({high}) above maximum ({bounds.high}): {text}"
    if low > high:
        return f"beginning of range ({low}) beyond end of range ({high}): {text}"
    return f"step of range should be a positive number: {text}" if step == 0 else None


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    if named is not None:
        return named
    if re.fullmatch(r"[+-]?\d+", text) is None:
        reason = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ValueError(f"failed to parse int from {text}: {reason}")
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
