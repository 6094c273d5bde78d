"""Admission: what else must hold before a write, and what the server adds to objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from kubewright.api.resource import Object
from kubewright.local.apiserver.exchange import User
from kubewright.local.apiserver.kind import ServedKind


class Attributes(msgspec.Struct):
    """A write on its way through admission.

    `operation` is CREATE, UPDATE, DELETE or CONNECT. `obj` is None for a deletion, `old` for a
    creation. Mutating plugins change `obj` in place or replace it. `warnings` is that of the
    request.
    """

    operation: str
    kind: ServedKind
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    user: User
    subresource: str = ""
    dry_run: bool = False
    options: Object = {}
    warnings: list[str] = []


class Plugin(Protocol):
    """One admission plugin. Both methods raise an APIError to refuse the write."""

    async def mutate(self, attributes: Attributes) -> None:
        """Change the object, before it is validated."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Judge the object as it would be stored."""
        ...


class Admission:
    """The chain of plugins, in order: all of them mutate, then all of them validate."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._plugins = list(plugins)

    def add(self, plugin: Plugin) -> None:
        """Append a plugin."""
        self._plugins.append(plugin)

    async def mutate(self, attributes: Attributes) -> None:
        """Let every plugin change the object.

        Raises:
            APIError: one of them refuses the write.
        """
        for plugin in self._plugins:
            await plugin.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Let every plugin judge the object.

        Raises:
            APIError: one of them refuses the write.
        """
        for plugin in self._plugins:
            await plugin.validate(attributes)
