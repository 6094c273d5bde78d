"""Values with an encoding of their own: times, quantities, base64."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from functools import lru_cache

from kubewright.api.quantity import Quantity
from kubewright.api.time import format_micro_time, format_time

_CANONICAL_TIME = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
# The elements of Go's layouts, as patterns, in the order in which they are parsed.
_ELEMENTS = (
    (r"\d{4}", "2006"),
    ("-", "-"),
    (r"\d{2}", "01"),
    ("-", "-"),
    (r"\d{2}", "02"),
    ("T", "T"),
    (r"\d{2}", "15"),
    (":", ":"),
    (r"\d{2}", "04"),
    (":", ":"),
    (r"\d{2}", "05"),
)
_ZONE = (r"Z|[+-]\d{2}:\d{2}", "Z07:00")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
QUANTITY_FAULT = (
    "quantities must match the regular expression"
    r" '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def read_time(text: str) -> str:
    """Return an RFC 3339 time in canonical form, UTC with whole seconds.

    Raises:
        ValueError: worded as Go does.
    """
    if _CANONICAL_TIME.fullmatch(text):
        return text
    elements = (*_ELEMENTS, (r"(?:[.,]\d+)?", ""), _ZONE)
    return format_time(_parse_time(text, elements, _LAYOUT))


def read_micro_time(text: str) -> str:
    """Return an RFC 3339 time with six decimals, in UTC.

    Raises:
        ValueError: worded as Go does.
    """
    elements = (*_ELEMENTS, (r"[.,]\d{6}(?!\d)", ".000000"), _ZONE)
    return format_micro_time(_parse_time(text, elements, _MICRO_LAYOUT))


def _parse_time(text: str, elements: tuple[tuple[str, str], ...], layout: str) -> datetime:
    rest = text
    for pattern, name in elements:
        match = re.match(pattern, rest)
        if match is None:
            raise ValueError(
                f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"'
            )
        rest = rest[match.end() :]
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    try:
        return datetime.fromisoformat(text.replace(",", ".")).astimezone(UTC)
    except ValueError as error:
        raise ValueError(f'parsing time "{text}": day out of range') from error


@lru_cache(maxsize=4096)
def read_quantity(text: str) -> str:
    """Return a quantity in canonical form.

    Raises:
        ValueError: worded as Go does.
    """
    try:
        return str(Quantity(text))
    except (ValueError, ArithmeticError) as error:
        raise ValueError(QUANTITY_FAULT) from error


def check_base64(text: str) -> str:
    """Return base64 text as it is, without line breaks.

    Raises:
        ValueError: worded as Go does.
    """
    plain = text.replace("\n", "").replace("\r", "")
    if not _BASE64.fullmatch(plain):
        body = re.match(r"[A-Za-z0-9+/]*", plain)
        position = body.end() if body else 0
        # A cut-off text is told at the start of its last group, a strange letter at its place.
        if position == len(plain):
            position -= position % 4
        raise ValueError(f"illegal base64 data at input byte {position}")
    return plain


def encode_base64(data: bytes) -> str:
    """Write bytes as JSON has them."""
    return base64.b64encode(data).decode()
