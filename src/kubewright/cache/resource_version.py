"""Compare resource versions: as integers where they are integers (KEP-5504), else for equality."""

from __future__ import annotations


def parse_version(text: str) -> int | None:
    """Return a resource version as a number; None where it is opaque or missing."""
    return int(text) if text.isascii() and text.isdigit() else None


def is_seen(version: str, wanted: str) -> bool:
    """Tell whether a view at `version` contains the write that made `wanted`.

    Opaque versions have no order: only the same version is known to be seen.
    """
    if version == wanted:
        return bool(version)
    have, want = parse_version(version), parse_version(wanted)
    return have is not None and want is not None and have >= want


def is_newer(version: str, other: str) -> bool:
    """Tell whether a version is certainly later than another; opaque ones never are."""
    have, want = parse_version(version), parse_version(other)
    return have is not None and want is not None and have > want


def oldest(versions: list[str]) -> str:
    """Return the version that all of several views have reached; empty where one has none."""
    if len(versions) == 1:
        return versions[0]
    numbers = [(parse_version(version), version) for version in versions]
    if any(not version for version in versions) or not versions:
        return ""
    known = [(number, version) for number, version in numbers if number is not None]
    return min(known)[1] if len(known) == len(versions) else versions[0]
