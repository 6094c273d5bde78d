"""Formats of names, label keys, ports and the like, with the API server's wording of each fault.

Each function returns what is wrong with a text, as a list of details; an empty list is a good text
(`k8s.io/apimachinery/pkg/util/validation`).
"""

from __future__ import annotations

import ipaddress
import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HEADER = "[-A-Za-z0-9]+"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"

_ALPHANUMERIC_ENDS = "must start and end with an alphanumeric character"
_label = re.compile(_LABEL)
_subdomain = re.compile(_SUBDOMAIN)
_label_1035 = re.compile(_LABEL_1035)
_key = re.compile(_KEY)
_value = re.compile(_VALUE)
_config_key = re.compile(_CONFIG_KEY)
_percent = re.compile(_PERCENT)
_header = re.compile(_HEADER)
_wildcard = re.compile(_WILDCARD)


def pattern_fault(message: str, pattern: str, *examples: str) -> str:
    """Word a mismatch: the rule in words, examples, the pattern."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def length_fault(limit: int, unit: str = "characters") -> str:
    """Word a text that is too long."""
    return f"must be no more than {limit} {unit}"


def range_fault(low: int, high: int) -> str:
    """Word a number outside its range."""
    return f"must be between {low} and {high}, inclusive"


def check_dns_label(text: str) -> list[str]:
    """Check a DNS label (RFC 1123)."""
    faults = [length_fault(63)] if len(text.encode()) > 63 else []
    if not _label.fullmatch(text):
        if _subdomain.fullmatch(text):
            return [*faults, "must not contain dots"]
        message = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
            f" and {_ALPHANUMERIC_ENDS}"
        )
        faults.append(pattern_fault(message, _LABEL, "my-name", "123-abc"))
    return faults


def check_dns_subdomain(text: str) -> list[str]:
    """Check a DNS subdomain (RFC 1123)."""
    faults = [length_fault(253)] if len(text.encode()) > 253 else []
    if not _subdomain.fullmatch(text):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            f" '-' or '.', and {_ALPHANUMERIC_ENDS}"
        )
        faults.append(pattern_fault(message, _SUBDOMAIN, "example.com"))
    return faults


def check_dns_1035_label(text: str) -> list[str]:
    """Check a DNS label that starts with a letter (RFC 1035)."""
    faults = [length_fault(63)] if len(text.encode()) > 63 else []
    if not _label_1035.fullmatch(text):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with"
            " an alphabetic character, and end with an alphanumeric character"
        )
        faults.append(pattern_fault(message, _LABEL_1035, "my-name", "abc-123"))
    return faults


def check_wildcard_subdomain(text: str) -> list[str]:
    """Check a subdomain whose first label is `*`."""
    faults = [length_fault(253)] if len(text.encode()) > 253 else []
    if not _wildcard.fullmatch(text):
        message = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain,"
            " which must consist of lower case alphanumeric characters, '-' or '.' and end with an"
            " alphanumeric character"
        )
        faults.append(pattern_fault(message, _WILDCARD, "*.example.com"))
    return faults


def check_qualified_name(text: str) -> list[str]:
    """Check a label key: a name with an optional DNS subdomain and `/` before it."""
    rule = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ALPHANUMERIC_ENDS}"
    examples = ("MyName", "my.name", "123-abc")
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        shown = pattern_fault(f"a valid label key {rule}", _KEY, *examples)
        return [
            f"{shown} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    faults: list[str] = []
    if prefixes:
        prefix_faults = _byte_limits(check_dns_subdomain(prefixes[0]))
        faults = (
            [f"prefix part {fault}" for fault in prefix_faults]
            if prefixes[0]
            else ["prefix part must be non-empty"]
        )
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        faults.append(f"name part {length_fault(63, 'bytes')}")
    if not _key.fullmatch(name):
        faults.append(f"name part {pattern_fault(rule, _KEY, *examples)}")
    return faults


def _byte_limits(faults: list[str]) -> list[str]:
    return [length_fault(253, "bytes") if f == length_fault(253) else f for f in faults]


def check_label_value(text: str) -> list[str]:
    """Check a label value."""
    faults = [length_fault(63, "bytes")] if len(text.encode()) > 63 else []
    if not _value.fullmatch(text):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
            f" or '.', and {_ALPHANUMERIC_ENDS}"
        )
        faults.append(pattern_fault(message, _VALUE, "MyValue", "my_value", "12345"))
    return faults


def check_config_key(text: str) -> list[str]:
    """Check a key of a ConfigMap or Secret: it becomes a file name."""
    faults = [length_fault(253)] if len(text.encode()) > 253 else []
    if not _config_key.fullmatch(text):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        faults.append(pattern_fault(message, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return faults + _dot_faults(text)


def _dot_faults(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


def check_env_name(text: str) -> list[str]:
    """Check the name of an environment variable."""
    faults = [] if text else ["environment variable name must be non-empty"]
    if not all(" " <= char <= "~" and char != "=" for char in text):
        faults.append(
            "a valid environment variable name must consist only of printable ASCII characters"
            " other than '='"
        )
    return faults


def check_port_number(port: int) -> list[str]:
    """Check a port number."""
    return [] if 1 <= port <= 65535 else [range_fault(1, 65535)]


def check_port_name(text: str) -> list[str]:
    """Check the name of a port (IANA_SVC_NAME, RFC 6335)."""
    faults = [length_fault(15)] if len(text) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text and "-" in (text[0], text[-1]):
        faults.append("must not begin or end with a hyphen")
    return faults


def check_percent(text: str) -> list[str]:
    """Check a percentage such as `25%`."""
    if _percent.fullmatch(text):
        return []
    message = "a valid percent string must be a numeric string followed by an ending '%'"
    return [pattern_fault(message, _PERCENT, "1%", "93%")]


def check_header_name(text: str) -> list[str]:
    """Check the name of an HTTP header."""
    if _header.fullmatch(text):
        return []
    message = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [pattern_fault(message, _HEADER, "X-Header-Name")]


def check_ip(text: str) -> list[str]:
    """Check an IP address of either family."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def check_cidr(text: str) -> list[str]:
    """Check a network in CIDR notation."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        text = ""
    return (
        [] if "/" in text else ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    )
