"""The order of API versions by maturity, as discovery prefers them."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}


def version_rank(name: str) -> tuple[int, int, int, int, str]:
    """Return a sort key: `v2` above `v1` above `v1beta1` above `v1alpha1` above any other name."""
    match = _VERSION.fullmatch(name)
    if match is None:
        # Other names are ordered among themselves, the first of the alphabet highest.
        return (0, 0, 0, 0, "".join(chr(0x10FFFF - ord(char)) for char in name))
    major, stage, minor = match.groups()
    return (1, _STAGES[stage], int(major), int(minor or 0), "")
