"""What nodes tell at /metrics/resource: samples of usage in Prometheus' text form. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from kubewright.api.resource import NamespacedName

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: (-?\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Point(msgspec.Struct):
    """The usage of something at a time: processor seconds since its start, and bytes."""

    time: datetime
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    started: datetime | None = None

    @property
    def is_whole(self) -> bool:
        """Tell whether both processor time and memory were told."""
        return self.cpu_seconds is not None and self.memory_bytes is not None


class Reading(msgspec.Struct):
    """One look at a node: its own usage, and that of the containers of its pods."""

    node: Point
    pods: dict[NamespacedName, dict[str, Point]] = {}


def read_exposition(text: str, now: datetime) -> Reading:
    """Read the answer of a node; series, lines and numbers that are not known are left out.

    Args:
        text: The answer.
        now: The time of samples that have none of their own.

    Raises:
        ValueError, OverflowError: a time is beyond all calendars.
    """
    reading = Reading(Point(now))
    for name, labels, value, moment in _parse(text):
        if name.startswith("node_"):
            _take(reading.node, name.removeprefix("node_"), value, moment)
        elif name.startswith("container_") and "pod" in labels:
            key = NamespacedName(labels.get("namespace", ""), labels["pod"])
            containers = reading.pods.setdefault(key, {})
            point = containers.setdefault(labels.get("container", ""), Point(now))
            _take(point, name.removeprefix("container_"), value, moment)
    return reading


def _take(point: Point, series: str, value: float, moment: datetime | None) -> None:
    match series:
        case "cpu_usage_seconds_total":
            point.cpu_seconds = value
            point.time = moment or point.time
        case "memory_working_set_bytes":
            point.memory_bytes = int(value)
        case "start_time_seconds":
            point.started = datetime.fromtimestamp(value, UTC)


def _parse(text: str) -> Iterator[tuple[str, Mapping[str, str], float, datetime | None]]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        moment = datetime.fromtimestamp(int(match[4]) / 1000, UTC) if match[4] else None
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            yield match[1], labels, value, moment
