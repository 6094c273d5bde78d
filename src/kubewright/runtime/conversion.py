"""Conversion between the versions of a kind, by the functions of an operator's author."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Resource

ConvertFunction: TypeAlias = Callable[[Any], Any]


class Conversions:
    """The functions that turn an object of one version into one of another.

    Register them as hub and spokes: each version to and from one of them. What has no function of
    its own goes by the shortest way, which is through the hub.
    """

    def __init__(self) -> None:
        self._functions: dict[Resource, dict[Resource, ConvertFunction]] = {}

    def add(self, source: Resource, target: Resource, function: ConvertFunction) -> None:
        """Register the function that makes a `target` of a `source`.

        Raises:
            ConfigurationError: they are not two versions of one kind, or have a function already.
        """
        if source.gvk.group_kind != target.gvk.group_kind or source.version == target.version:
            raise ConfigurationError(
                f"{source.gvk} and {target.gvk} are not two versions of one kind"
            )
        targets = self._functions.setdefault(source, {})
        if target in targets:
            raise ConfigurationError(
                f"{source.kind} has two functions from {source.version} to {target.version}: "
                "keep one"
            )
        targets[target] = function

    def find_path(
        self, source: Resource, target: Resource
    ) -> list[tuple[Resource, ConvertFunction]]:
        """Return the shortest way as steps: a version and the function that leads to it.

        Raises:
            ConfigurationError: there is no way.
        """
        paths: dict[Resource, list[tuple[Resource, ConvertFunction]]] = {source: []}
        waiting = deque([source])
        while waiting and target not in paths:
            here = waiting.popleft()
            for there, function in self._functions.get(here, {}).items():
                if there not in paths:
                    paths[there] = [*paths[here], (there, function)]
                    waiting.append(there)
        if target not in paths:
            raise ConfigurationError(
                f"nothing converts {source.kind} from {source.version} to {target.version}: "
                "register functions with @operator.convert, in both directions"
            )
        return paths[target]

    def check(self, versions: Sequence[Resource]) -> None:
        """Check that each version of a kind can become each other one.

        Raises:
            ConfigurationError: a way is missing.
        """
        for source in versions:
            for target in versions:
                self.find_path(source, target)
