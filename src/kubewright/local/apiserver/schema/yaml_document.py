"""YAML bodies as Go's decoders read them, with the keys that stand twice.

YAML is 1.1 as `sigs.k8s.io/yaml` has it: `y` is true, `0o17` and `017` are 15, `1e3` is a number;
times and sexagesimal numbers are text. Only the first document is read.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from kubewright.local.apiserver.schema.json_document import DocumentError

_PLAIN = "plain"
_TEXT = "tag:yaml.org,2002:str"
_TRUE = ("y", "yes", "true", "on")
_FALSE = ("n", "no", "false", "off")
_LITERALS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{spelt: True for word in _TRUE for spelt in (word, word.capitalize(), word.upper())},
    **{spelt: False for word in _FALSE for spelt in (word, word.capitalize(), word.upper())},
}
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _BodyLoader(_Loader):  # type: ignore[misc]  # the C loader is chosen at run time
    """A loader that leaves it to us what a plain scalar means."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _TEXT
        return super().resolve(kind, value, implicit)


def decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Decode the first document of a YAML stream.

    Returns:
        The value, and a complaint (`line 3: key "x" already set in map`) for each repeated key,
        the last of which counts.

    Raises:
        DocumentError: it is no YAML, or cannot be expressed in JSON.
    """
    loader = _BodyLoader(body)
    duplicates: list[str] = []
    try:
        if not loader.check_node():
            return None, []
        return _Builder(duplicates).build(loader.get_node()), duplicates
    except yaml.MarkedYAMLError as error:
        raise DocumentError(f"yaml: {_line_of(error)}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise DocumentError(f"yaml: {error}") from None
    finally:
        loader.dispose()


def _line_of(error: yaml.MarkedYAMLError) -> str:
    """Tell the line of a fault as Go's parser counts it: from 0, and from 1 for its scanner."""
    shift = isinstance(error, yaml.scanner.ScannerError)
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"line {mark.line + shift}: "
    return ""


class _Builder:
    """Builds values from nodes; anchors may make a node stand in several places."""

    def __init__(self, duplicates: list[str]) -> None:
        self._duplicates = duplicates
        self._open: set[int] = set()

    def build(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise DocumentError("yaml: an anchor contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item) for item in node.value]
            return self._mapping(node)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node) -> dict[str, Any]:
        value: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key_node, item in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                inherited = {**self._inherited(item), **inherited}
                continue
            key = _key(self.build(key_node))
            if key in value:
                line = key_node.start_mark.line + 1
                self._duplicates.append(f'line {line}: key "{key}" already set in map')
            value[key] = self.build(item)
        return {**inherited, **value} if inherited else value

    def _inherited(self, node: yaml.Node) -> dict[str, Any]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in reversed(parts):
            value = self.build(part)
            if not isinstance(value, dict):
                raise DocumentError("yaml: map merge requires map or sequence of maps as the value")
            merged.update(value)
        return merged


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise DocumentError("unsupported map key of type: nil" if value is None else "unsupported key")


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.tag != _PLAIN:
        return _tagged(node.tag, text)
    if text in _LITERALS:
        return _LITERALS[text]
    return _number(text)


def _number(text: str) -> Any:
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        digits = plain.lstrip("+-").lower()
        # A leading zero alone makes an octal number, as in C.
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8) if octal else int(digits, 0)
        value = -value if plain[0] == "-" else value
        return value if -(2**63) <= value < 2**64 else float(value)
    return float(plain) if _FLOAT.fullmatch(plain) else text


def _tagged(tag: str, text: str) -> Any:
    match tag.rpartition(":")[2]:
        case "int" | "float":
            return _number(text)
        case "bool" | "null":
            return _LITERALS.get(text, text)
    return text
