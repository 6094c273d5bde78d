"""String formats of schemas: those that the real API server checks, with its strictness."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from urllib.parse import urlsplit

_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_SPAN = re.compile(r"\d+(?:\.\d+)?\s*([A-Za-zµ]+)")
# The last spelling of each unit may have any ending: `sec`, `seconds`.
_UNITS = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_DATE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d{2}:\d{2})"
)
# Letters and symbols beyond ASCII are written as `x` and `=` before the name is matched.
_HOST_NAME = re.compile(
    r"[a-zA-Z0-9=](-?[a-zA-Z0-9=]{0,62})?"
    r"|([a-zA-Z0-9=]([a-zA-Z0-9=-]{0,61}[a-zA-Z0-9=])?\.)+[a-zA-Z]{2,63}"
)
_OCTET = "[0-9A-Fa-f]{2}"
_MAC = re.compile(
    rf"{_OCTET}([:-]){_OCTET}(?:\1{_OCTET}){{4}}(?:(?:\1{_OCTET}){{2}})?"
    r"|[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){2,3}|[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16}"
)
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=\d)")
_HEX_RGB = r"(25[0-5]|2[0-4]\d|1?\d?\d)"


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    return match is not None and _is_date(match.group(1))


def _is_duration(text: str) -> bool:
    """Go's `1h30m`, or a text with any span such as `3 weeks` in it."""
    if _GO_DURATION.fullmatch(text):
        return True
    return any(_is_unit(match.group(1).lower()) for match in _SPAN.finditer(text))


def _is_unit(word: str) -> bool:
    return any(word in spellings or word.startswith(spellings[-1]) for spellings in _UNITS)


def _is_email(text: str) -> bool:
    _, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    quoted = local.startswith('"') and local.endswith('"')
    return bool(at and local and domain) and (quoted or " " not in address)


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > 255:
        return False
    classes = (unicodedata.category(char)[0] for char in text)
    plain = "".join(
        "=" if kind == "S" else "x" if kind == "L" and not char.isascii() else char
        for char, kind in zip(text, classes, strict=True)
    )
    return _HOST_NAME.fullmatch(plain) is not None


def _is_ipv4(text: str) -> bool:
    """An IPv4 address, leading zeros and all, or one in IPv6 clothes."""
    try:
        address = ipaddress.ip_address(_LEADING_ZEROS.sub("", text))
    except ValueError:
        return False
    return address.version == 4 or address.ipv4_mapped is not None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, length = text.rpartition("/")
    if not slash or not length.isdigit():
        return False
    try:
        ipaddress.ip_interface(f"{_LEADING_ZEROS.sub('', address)}/{length}")
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    """What Go's `url.ParseRequestURI` takes: absolute, or a path from the root."""
    if not text or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_base64(text: str) -> bool:
    if not text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _digits(text: str) -> list[int]:
    return [10 if char in "Xx" else int(char) for char in text if char.isdigit() or char in "Xx"]


def _is_isbn10(text: str) -> bool:
    plain = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", plain):
        return False
    return sum((10 - at) * digit for at, digit in enumerate(_digits(plain))) % 11 == 0


def _is_isbn13(text: str) -> bool:
    plain = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", plain):
        return False
    return sum((3 if at % 2 else 1) * digit for at, digit in enumerate(_digits(plain))) % 10 == 0


def _is_credit_card(text: str) -> bool:
    plain = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{12,19}", plain):
        return False
    total = 0
    for at, digit in enumerate(reversed(_digits(plain))):
        doubled = digit * 2 if at % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

CHECKED_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8s-long-name": _matches(rf"(?=.{{1,253}}\Z){_PART}(\.{_PART})*"),
    "k8s-short-name": _matches(_LABEL),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda text: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_HEX_RGB}\s*,\s*{_HEX_RGB}\s*,\s*{_HEX_RGB}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _is_uri,
    "uuid": _matches(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.IGNORECASE),
    "uuid3": _matches(_UUID % ("3", "[0-9a-f]"), re.IGNORECASE),
    "uuid4": _matches(_UUID % ("4", "[89ab]"), re.IGNORECASE),
    "uuid5": _matches(_UUID % ("5", "[89ab]"), re.IGNORECASE),
}
"""Formats of strings by name; any other format is stored and not checked."""

_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("double", "float")}


def is_known_format(name: str, schema_type: str) -> bool:
    """Tell whether a format means something for values of a type."""
    return name in CHECKED_FORMATS or name in _NUMBER_FORMATS.get(schema_type, ())
