"""YAML 1.1 into JSON values, as sigs.k8s.io/yaml does it."""

from __future__ import annotations

from datetime import date
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _BodyLoader(_Loader):  # type: ignore[misc]  # the C loader is chosen at run time
    """A loader that keeps times as text and remembers keys that stand twice."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []


def load_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    """Load the first document; returns its value and the complaints about repeated keys.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    loader = _BodyLoader(data)
    try:
        value = loader.get_data() if loader.check_data() else None
        return value, tuple(loader.duplicates)
    finally:
        loader.dispose()


def _construct_mapping(loader: _BodyLoader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(loader.construct_object(key_node, deep=True))
        if key in mapping:
            line = key_node.start_mark.line + 1
            loader.duplicates.append(f'line {line}: key "{key}" already set in map')
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


def _construct_time(loader: _BodyLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


_BodyLoader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_BodyLoader.add_constructor("tag:yaml.org,2002:timestamp", _construct_time)
