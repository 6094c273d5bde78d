"""The CEL functions that Kubernetes adds to the language, as overloads for cel-expr-python.

Values of Kubernetes' own types (quantities, addresses, URLs, versions) are maps with a tag: the
evaluator has no opaque types of its own.
"""

from __future__ import annotations

import functools
import importlib
import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubewright.api.quantity import Quantity
from kubewright.local.apiserver.crd.pattern import compile_pattern
from kubewright.local.apiserver.formats import (
    check_dns_1035_label,
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
Tagged = Mapping[str, Any]


def _tag(name: str, text: str) -> dict[str, Any]:
    return {"$type": name, "$value": text}


def _reads(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    """Return whether a parser takes a text."""

    def holds(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return holds


def _constructor(name: str, parse: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    def construct(text: str) -> dict[str, Any]:
        parse(text)
        return _tag(name, text)

    return construct


def _url(text: str) -> Any:
    fault = _find_url_fault(text)
    if fault:
        shown = json.dumps(text, ensure_ascii=False)
        raise ValueError(f"URL parse error during conversion from string: parse {shown}: {fault}")
    return urlsplit(text)


def _find_url_fault(text: str) -> str:
    """Return why Go's `url.ParseRequestURI` refuses a text; empty where it does not."""
    if not text:
        return "empty url"
    if any(char < " " or char == "\x7f" for char in text):
        return "net/url: invalid control character in URL"
    if text.startswith(":"):
        return "missing protocol scheme"
    scheme = _SCHEME.match(text)
    if not scheme and not text.startswith("/"):
        return "invalid URI for request"
    rest = text[scheme.end() :] if scheme else text
    host = re.split("[/?#]", rest[2:], maxsplit=1)[0] if rest.startswith("//") else ""
    if " " in host:
        return 'invalid character " " in host name'
    escape = _BAD_ESCAPE.search(text)
    return f'invalid URL escape "{escape.group()}"' if escape else ""


def _semver(text: str) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid semantic version: {text}")
    major, minor, patch, pre = match.groups()
    # A version without a pre-release part comes after those with one.
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in (pre or "").split("."))
    return (int(major), int(minor), int(patch), not pre, parts)


def _address(text: str) -> Any:
    if "%" in text:
        raise ValueError(f"IP Address {text!r} with zone value is not allowed")
    return ipaddress.ip_address(text)


def _network(text: str) -> Any:
    if "/" not in text:
        raise ValueError(f"invalid CIDR address: {text}")
    return ipaddress.ip_interface(text)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "quantity": Quantity,
    "url": _url,
    "semver": _semver,
    "ip": _address,
    "cidr": _network,
}


def _open(value: Any) -> Any:
    """Return the Python value of a tagged one."""
    return _PARSERS[value["$type"]](value["$value"])


def _compare(left: Tagged, right: Tagged) -> int:
    a, b = _open(left), _open(right)
    return int(a > b) - int(a < b)


def _host(url: Any) -> str:
    return str(url.netloc.rpartition("@")[2])


def _contains(network: Tagged, other: Any) -> bool:
    text = other if isinstance(other, str) else other["$value"]
    inner = ipaddress.ip_network(text, strict=False)
    outer = _open(network).network
    return bool(inner.version == outer.version and inner.subnet_of(outer))


def _url_port(url: Tagged) -> str:
    port = _open(url).port
    return "" if port is None else str(port)


def _index(items: list[Any], item: Any) -> int:
    return items.index(item) if item in items else -1


def _last_index(items: list[Any], item: Any) -> int:
    return len(items) - 1 - items[::-1].index(item) if item in items else -1


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in compile_pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(text)
    return match.group() if match else ""


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1035Label": check_dns_1035_label,
    "dns1123Label": check_dns_label,
    "dns1123Subdomain": check_dns_subdomain,
    "labelValue": check_label_value,
    "qualifiedName": check_qualified_name,
}


def _format(name: str) -> Callable[[], dict[str, Any]]:
    return lambda: _tag("format", name)


def _validate(named: Tagged, text: str) -> list[str]:
    return _FORMATS[named["$value"]](text)


# name, result, parameters, implementation; a leading dot makes it a method of its first parameter.
# The types are one letter each: see _types.
FUNCTIONS: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    *((f"is{n}", "b", "s", _reads(_PARSERS[n.lower()])) for n in ("Quantity", "URL", "IP", "CIDR")),
    ("isSemver", "b", "s", _reads(_semver)),
    *((name, "m", "s", _constructor(name, parse)) for name, parse in _PARSERS.items()),
    (".isGreaterThan", "b", "mm", lambda a, b: _compare(a, b) > 0),
    (".isLessThan", "b", "mm", lambda a, b: _compare(a, b) < 0),
    (".compareTo", "i", "mm", _compare),
    (".sign", "i", "m", lambda q: _compare(q, _tag("quantity", "0"))),
    (".isInteger", "b", "m", lambda q: _open(q).value.denominator == 1),
    (".asInteger", "i", "m", lambda q: int(_open(q).value)),
    (".asApproximateFloat", "d", "m", lambda q: float(_open(q).value)),
    (".major", "i", "m", lambda v: _open(v)[0]),
    (".minor", "i", "m", lambda v: _open(v)[1]),
    (".patch", "i", "m", lambda v: _open(v)[2]),
    (".family", "i", "m", lambda a: _open(a).version),
    (".isLoopback", "b", "m", lambda a: _open(a).is_loopback),
    (".isUnspecified", "b", "m", lambda a: _open(a).is_unspecified),
    (".isGlobalUnicast", "b", "m", lambda a: not (_open(a).is_multicast or _open(a).is_loopback)),
    (".isLinkLocalUnicast", "b", "m", lambda a: _open(a).is_link_local),
    (".containsIP", "b", "ms", _contains),
    (".containsIP", "b", "mm", _contains),
    (".containsCIDR", "b", "ms", _contains),
    (".containsCIDR", "b", "mm", _contains),
    (".prefixLength", "i", "m", lambda c: _open(c).network.prefixlen),
    (".masked", "m", "m", lambda c: _tag("cidr", str(_open(c).network))),
    (".ip", "m", "m", lambda c: _tag("ip", str(_open(c).ip))),
    (".getScheme", "s", "m", lambda u: _open(u).scheme),
    (".getHost", "s", "m", lambda u: _host(_open(u))),
    (".getHostname", "s", "m", lambda u: _open(u).hostname or ""),
    (".getPort", "s", "m", _url_port),
    (".getEscapedPath", "s", "m", lambda u: _open(u).path),
    (".getQuery", "m", "m", lambda u: parse_qs(_open(u).query, keep_blank_values=True)),
    ("jsonpatch.escapeKey", "s", "s", lambda key: key.replace("~", "~0").replace("/", "~1")),
    *((f"format.{name}", "m", "", _format(name)) for name in _FORMATS),
    (".validate", "S", "ms", _validate),
    # What `validate` returns is optional: a list that is empty where nothing is wrong.
    (".hasValue", "b", "S", bool),
    (".value", "S", "S", lambda faults: faults),
    (".find", "s", "ss", _find),
    (".findAll", "S", "ss", _find_all),
    (".findAll", "S", "ssi", _find_all),
    (".isSorted", "b", "l", _is_sorted),
    (".sum", "y", "l", sum),
    (".min", "y", "l", min),
    (".max", "y", "l", max),
    (".indexOf", "i", "ly", _index),
    (".lastIndexOf", "i", "ly", _last_index),
)


def load_cel(module: str = "cel") -> Any:
    """Import a module of cel-expr-python, which is optional and has no type information.

    Raises:
        ImportError: it is not installed.
    """
    return importlib.import_module(f"cel_expr_python.{module}")


@functools.cache
def build_extensions() -> tuple[Any, ...]:
    """Return the extensions of an environment for Kubernetes' rules.

    Raises:
        ImportError: cel-expr-python is not installed.
    """
    cel, types = load_cel(), _types()
    overloads: dict[str, list[Any]] = {}
    for name, result, parameters, impl in FUNCTIONS:
        identity = f"k8s_{name.strip('.')}_{parameters}_{'method' if name[0] == '.' else 'call'}"
        overload = cel.Overload(
            identity, types[result], [types[p] for p in parameters], name[0] == ".", impl
        )
        overloads.setdefault(name.removeprefix("."), []).append(overload)
    declared = [cel.FunctionDecl(name, found) for name, found in overloads.items()]
    return (
        load_cel("ext.ext_strings").ExtStrings(),
        load_cel("ext.ext_optional").ExtOptional(),
        cel.CelExtension("kubernetes", declared),
    )


def _types() -> dict[str, Any]:
    kind = load_cel().Type
    return {
        "b": kind.BOOL,
        "d": kind.DOUBLE,
        "i": kind.INT,
        "l": kind.List(kind.DYN),
        "m": kind.Map(kind.STRING, kind.DYN),
        "s": kind.STRING,
        "S": kind.List(kind.STRING),
        "y": kind.DYN,
    }


@functools.cache
def build_config() -> Any:
    """Return the configuration of the language's own libraries: lists, sets, two variables."""
    names = ("lists", "sets", "two-var-comprehensions")
    lines = "".join(f'- name: "{name}"\n' for name in names)
    return load_cel().NewEnvConfigFromYaml(f"name: kubernetes\nextensions:\n{lines}")
