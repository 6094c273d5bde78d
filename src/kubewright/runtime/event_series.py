"""Correlation of Events: what repeats becomes one Event with a count. Pure: told the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_micro_time

EventType: TypeAlias = Literal["Normal", "Warning"]

SERIES_END = timedelta(minutes=6)
_FIRST_UPDATE = timedelta(seconds=10)
_SIMILAR_LIMIT = 10
_NOTE_LIMIT = 1024
_COMBINED = "(combined from similar events): "


class Occurrence(msgspec.Struct, frozen=True):
    """Something that happened once to an object; the parts that name it, not when it happened."""

    component: str
    instance: str
    regarding: tuple[tuple[str, str], ...]
    related: tuple[tuple[str, str], ...]
    type: EventType
    reason: str
    action: str
    note: str

    def without_note(self) -> Occurrence:
        """Return what it shares with similar occurrences."""
        return Occurrence(
            self.component,
            self.instance,
            self.regarding,
            self.related,
            self.type,
            self.reason,
            self.action,
            "",
        )


class Series(msgspec.Struct):
    """The occurrences that one Event stands for."""

    occurrence: Occurrence
    name: str
    first: datetime
    last: datetime
    count: int = 1
    written: int = 0
    """The count that the API server knows; 0 before the Event is created."""
    pause: timedelta = timedelta()
    not_before: datetime | None = None

    @property
    def key(self) -> NamespacedName:
        """The key of the Event; those about cluster-scoped objects live in `default`."""
        namespace = dict(self.occurrence.regarding).get("namespace")
        return NamespacedName(namespace or "default", self.name)

    @property
    def is_behind(self) -> bool:
        """Tell whether the API server does not know the latest count."""
        return self.written < self.count

    def has_ended(self, now: datetime) -> bool:
        """Tell whether the next occurrence begins a new series."""
        return not self.is_behind and self.last + SERIES_END < now

    def to_series(self) -> Object:
        """Return the `series` of the Event."""
        return {"count": self.count, "lastObservedTime": format_micro_time(self.last)}

    def to_object(self) -> Object:
        """Build the Event (events.k8s.io/v1)."""
        occurrence = self.occurrence
        event: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.key.namespace},
            "eventTime": format_micro_time(self.first),
            "reportingController": occurrence.component,
            "reportingInstance": occurrence.instance[:128],
            "action": occurrence.action[:128],
            "reason": occurrence.reason[:128],
            "type": occurrence.type,
            "note": _shorten(occurrence.note),
            "regarding": dict(occurrence.regarding),
        }
        if occurrence.related:
            event["related"] = dict(occurrence.related)
        if self.count > 1:
            event["series"] = self.to_series()
        return event


class Correlator:
    """Fold occurrences into series, and tell which series to write when.

    A repetition is written at once; further ones wait 10 s, doubling to 6 minutes, and only raise
    the count. More than ten notes that differ in nothing but their text, within 6 minutes of each
    other, become one series. So an object cannot cause a storm of Events, however it fails.
    """

    def __init__(self) -> None:
        self._series: dict[Occurrence, Series] = {}
        self._behind: dict[str, Series] = {}
        self._similar: dict[Occurrence, int] = {}
        self._number = itertools.count()
        self._cleaned: datetime | None = None

    def record(self, occurrence: Occurrence, now: datetime) -> None:
        """Count an occurrence."""
        self._forget_ended(now)
        series = self._find(occurrence, now)
        if series is None:
            occurrence, common = self._combine(occurrence)
            series = self._find(common, now)
            if series is None:
                series = Series(occurrence, self._build_name(occurrence, now), now, now, count=0)
                self._series[common] = series
        series.count += 1
        series.last = now
        self._behind[series.name] = series

    def due(self, now: datetime) -> Iterator[Series]:
        """Yield the series to write now; call `wrote` for those that were."""
        for series in self._behind.values():
            if series.not_before is None or series.not_before <= now:
                yield series

    def next_due(self) -> datetime | None:
        """Return when `due` has something next; None while all is written."""
        behind = self._behind.values()
        return min((series.not_before or series.last for series in behind), default=None)

    def wrote(self, series: Series, count: int, now: datetime) -> None:
        """Note that the API server knows a count of a series."""
        series.written = count
        if not series.is_behind:
            self._behind.pop(series.name, None)
        if count > 1:
            series.pause = min(max(series.pause * 2, _FIRST_UPDATE), SERIES_END)
            series.not_before = now + series.pause

    def drop(self, series: Series) -> None:
        """Forget a series: the next occurrence begins a new one."""
        self._behind.pop(series.name, None)
        self._series = {key: kept for key, kept in self._series.items() if kept is not series}

    def _find(self, occurrence: Occurrence, now: datetime) -> Series | None:
        series = self._series.get(occurrence)
        return None if series is None or series.has_ended(now) else series

    def _combine(self, occurrence: Occurrence) -> tuple[Occurrence, Occurrence]:
        """Return the occurrence and the key of its series: its own, or that of all similar ones."""
        common = occurrence.without_note()
        self._similar[common] = self._similar.get(common, 0) + 1
        if self._similar[common] <= _SIMILAR_LIMIT:
            return occurrence, occurrence
        note = _COMBINED + occurrence.note
        combined = Occurrence(
            common.component,
            common.instance,
            common.regarding,
            common.related,
            common.type,
            common.reason,
            common.action,
            note,
        )
        return combined, common

    def _forget_ended(self, now: datetime) -> None:
        # Now and then: to look at all series for each occurrence would take the square of the time.
        if self._cleaned is not None and now < self._cleaned + _FIRST_UPDATE:
            return
        self._cleaned = now
        for key in [key for key, series in self._series.items() if series.has_ended(now)]:
            common = self._series.pop(key).occurrence.without_note()
            if self._similar.get(common, 0) <= 1:
                self._similar.pop(common, None)
            else:
                self._similar[common] -= 1

    def _build_name(self, occurrence: Occurrence, now: datetime) -> str:
        # The number keeps names apart that are made in one microsecond, as on a virtual clock.
        stamp = int(now.timestamp() * 1_000_000) * 1000 + next(self._number) % 1000
        return f"{dict(occurrence.regarding)['name'][:230]}.{stamp:x}"


def _shorten(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= _NOTE_LIMIT:
        return note
    return encoded[: _NOTE_LIMIT - 3].decode(errors="ignore") + "…"
