"""Cron schedules as Kubernetes reads them: what is one, and when it is due next.

The language, its faults and its behaviour over clock changes are those of the parser that
kube-apiserver and kube-controller-manager share. It is a dialect of its own: `?` is `*`, a step
makes a day field count as restricted, a time that a clock change skips is left out, and one that
comes twice is due twice. General cron libraries run skipped times late and doubled ones once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from kubewright.api.errors import KubewrightError


class ScheduleError(KubewrightError):
    """A schedule is none; the message is what the API server says of it."""


class _Bounds(msgspec.Struct, frozen=True):
    """The numbers of one field of a schedule, and their names."""

    low: int
    high: int
    names: Mapping[str, int] = {}


class _Field(msgspec.Struct, frozen=True):
    """The numbers that a field allows; `is_any` where it says that it does not matter."""

    numbers: frozenset[int]
    is_any: bool = False


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    _Bounds(0, 6, {name: index for index, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_AMOUNT = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)")
_YEARS = 5
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


class IntervalSchedule(msgspec.Struct, frozen=True):
    """Due again and again after a while, counted from the last time (`@every 90m`)."""

    every: timedelta

    def next(self, after: datetime) -> datetime | None:
        """Return when it is due next, in whole seconds."""
        return after.replace(microsecond=0) + self.every


class CalendarSchedule(msgspec.Struct, frozen=True):
    """Due at the minutes that five fields allow, on the clock of a time zone."""

    minute: _Field
    hour: _Field
    day: _Field
    month: _Field
    weekday: _Field
    zone: tzinfo

    def next(self, after: datetime) -> datetime | None:
        """Return the first time after a moment, in UTC; None if there is none in five years.

        It walks in absolute time and looks at the wall clock: so an hour that a clock change
        leaves out is never met, and one that comes twice is met twice.
        """
        moment = (after.astimezone(UTC) + _SECOND).replace(microsecond=0)
        last_year = moment.astimezone(self.zone).year + _YEARS
        while (local := moment.astimezone(self.zone)).year <= last_year:
            if local.month not in self.month.numbers:
                moment = self._begin(local.year + local.month // 12, local.month % 12 + 1, 1)
            elif not self._is_day(local):
                tomorrow = local.replace(tzinfo=None) + timedelta(days=1)
                moment = self._begin(tomorrow.year, tomorrow.month, tomorrow.day)
            elif local.hour not in self.hour.numbers:
                moment += _HOUR - timedelta(minutes=local.minute, seconds=local.second)
            elif local.minute not in self.minute.numbers:
                moment += _MINUTE - timedelta(seconds=local.second)
            elif local.second:
                moment += timedelta(seconds=60 - local.second)
            else:
                return moment
        return None

    def _begin(self, year: int, month: int, day: int) -> datetime:
        """Return the first moment of a day, also where a clock change leaves midnight out."""
        return datetime(year, month, day, tzinfo=self.zone).astimezone(UTC)

    def _is_day(self, local: datetime) -> bool:
        """Tell whether a day fits: two restricted day fields allow what either allows."""
        in_month = local.day in self.day.numbers
        in_week = local.isoweekday() % 7 in self.weekday.numbers
        if self.day.is_any or self.weekday.is_any:
            return in_month and in_week
        return in_month or in_week


Schedule: TypeAlias = IntervalSchedule | CalendarSchedule


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Read a cron schedule.

    Arguments:
        text: Five fields or a descriptor such as `@daily` or `@every 1h30m`; `TZ=Area/City` before
            it overrides the zone.
        zone: The time zone that the fields are meant in.

    Raises:
        ScheduleError: it is none.
    """
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, space, text = text.partition(" ")
        if not space:
            problem = "runtime error: slice bounds out of range [:-1]"
            raise ScheduleError(f"invalid schedule format: {problem}")
        zone = _find_zone(prefix.partition("=")[2])
        text = text.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return IntervalSchedule(_parse_interval(text))
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        found = f"found {len(parts)}: [{' '.join(parts)}]"
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, {found}")
    minute, hour, day, month, weekday = map(_parse_field, parts, _FIELDS)
    return CalendarSchedule(minute, hour, day, month, weekday, zone)


def _find_zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"provided bad location {name}: unknown time zone {name}") from None


def _parse_interval(text: str) -> timedelta:
    duration = text.removeprefix(_EVERY)
    seconds = _parse_duration(text, duration)
    return timedelta(seconds=max(int(seconds), 1))


def _parse_duration(text: str, duration: str) -> float:
    """Return the seconds of a duration as Go writes them: `1h30m`."""
    prefix = f"failed to parse duration {text}: time:"
    rest = duration.removeprefix("-") if duration.startswith("-") else duration.removeprefix("+")
    sign = -1 if duration.startswith("-") else 1
    if rest == "0":
        return 0
    total, place = 0.0, 0
    while match := _AMOUNT.match(rest, place):
        amount, unit = match.groups()
        if not unit:
            raise ScheduleError(f'{prefix} missing unit in duration "{duration}"')
        if unit not in _UNITS:
            raise ScheduleError(f'{prefix} unknown unit "{unit}" in duration "{duration}"')
        total += float(amount) * _UNITS[unit]
        place = match.end()
    if not place or place < len(rest):
        raise ScheduleError(f'{prefix} invalid duration "{duration}"')
    return sign * total


def _parse_field(text: str, bounds: _Bounds) -> _Field:
    ranges = [_parse_range(item, bounds) for item in text.split(",") if item]
    numbers = frozenset().union(*(each.numbers for each in ranges))
    return _Field(numbers, any(each.is_any for each in ranges))


def _parse_range(text: str, bounds: _Bounds) -> _Field:
    head, *steps = text.split("/")
    start, *ends = head.split("-")
    low, high = bounds.low, bounds.high
    is_any = start in ("*", "?")
    if not is_any:
        low = _parse_number(start, bounds.names)
        if len(ends) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        high = _parse_number(ends[0], bounds.names) if ends else low
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _parse_number(steps[0], {}) if steps else 1
    if steps and not ends:
        high = bounds.high
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    # With a step, `*` is a restriction like any other.
    return _Field(frozenset(range(low, high + 1, step)), is_any and step == 1)


def _parse_number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if re.fullmatch(r"[+-]?\d+", text) is None:
        reason = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ScheduleError(f"failed to parse int from {text}: {reason}")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
