"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds or microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """Write a moment as `metav1.Time` does: `2026-11-28T01:00:45Z`."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='seconds')}Z"


def format_micro_time(moment: datetime) -> str:
    """Write a moment as `metav1.MicroTime` does: `2026-11-28T01:00:45.000123Z`."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='microseconds')}Z"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time.

    Raises:
        ValueError: the text is not a time, or has no zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time {text!r} has no zone: write it as {text}Z for UTC")
    return moment
