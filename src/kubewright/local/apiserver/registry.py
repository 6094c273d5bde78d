"""The kinds that the server serves, by group, version and resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kubewright.local.apiserver.kind import ServedKind

# Groups whose versions are served in this order of preference (newest first is the rule).
_STAGES = {"alpha": 0, "beta": 1}


def version_rank(version: str) -> tuple[int, ...]:
    """Order versions by stability, then number: v2 above v1 above v1beta1 above others."""
    for stage, rank in _STAGES.items():
        if stage in version:
            major, _, minor = version.removeprefix("v").partition(stage)
            return (rank, int(major or 0), int(minor or 0)) if major.isdigit() else (-1, 0, 0)
    number = version.removeprefix("v")
    return (2, int(number), 0) if number.isdigit() else (-1, 0, 0)


class Registry:
    """All served kinds. Custom kinds come and go by the name of their definition."""

    def __init__(self, kinds: Iterable[ServedKind] = ()) -> None:
        self._builtin: dict[tuple[str, str, str], ServedKind] = {}
        self._by_definition: dict[str, tuple[ServedKind, ...]] = {}
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}
        self._listeners: list[Callable[[ServedKind], None]] = []
        self._sharing: Counter[tuple[str, str]] = Counter()
        self.generation = 0
        for kind in kinds:
            self._builtin[_key(kind)] = kind
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """Return the kind that a path names."""
        return self._kinds.get((group, version, plural))

    def storage_kind(self, kind: ServedKind) -> ServedKind:
        """Return the version of a kind in which its objects are stored."""
        stored = kind.stored_as
        return self._kinds.get((stored.group, stored.version, stored.plural)) or kind

    def has_versions(self, kind: ServedKind) -> bool:
        """Tell whether the kind's objects are served in other versions, or other groups, too."""
        return self._sharing[(kind.stored_as.group, kind.stored_as.plural)] > 1

    def equivalents(self, kind: ServedKind) -> list[ServedKind]:
        """Return the other kinds that show the objects of a kind, in another version or group."""
        if not self.has_versions(kind):
            return []
        own = (kind.stored_as.group, kind.stored_as.plural)
        return [
            other
            for other in self._kinds.values()
            if (other.stored_as.group, other.stored_as.plural) == own and other is not kind
        ]

    def set_custom(self, definition: str, kinds: Iterable[ServedKind]) -> None:
        """Serve the kinds of a CustomResourceDefinition instead of those it had before."""
        kinds = tuple(kinds)
        before = self._by_definition.pop(definition, ())
        if kinds:
            self._by_definition[definition] = kinds
        self._rebuild()
        for kind in before:
            for listener in self._listeners:
                listener(kind)

    def on_withdrawn(self, listener: Callable[[ServedKind], None]) -> None:
        """Call the listener with each kind that is served no more, or anew."""
        self._listeners.append(listener)

    def custom(self, definition: str) -> tuple[ServedKind, ...]:
        """Return the kinds that a definition serves now."""
        return self._by_definition.get(definition, ())

    def kinds(self) -> list[ServedKind]:
        """Return all kinds, built-in ones first."""
        return list(self._kinds.values())

    def group_versions(self, group: str) -> list[str]:
        """Return the served versions of a group, the preferred one first."""
        versions = {version for name, version, _ in self._kinds if name == group}
        return sorted(versions, key=version_rank, reverse=True)

    def groups(self) -> list[str]:
        """Return the named groups in the order in which they appeared."""
        return [group for group in dict.fromkeys(key[0] for key in self._kinds) if group]

    def of_version(self, group: str, version: str) -> list[ServedKind]:
        """Return the kinds of a group version, ordered by plural."""
        found = [k for key, k in self._kinds.items() if key[:2] == (group, version)]
        return sorted(found, key=lambda kind: kind.resource.plural)

    def is_builtin_group(self, group: str) -> bool:
        """Tell whether the group is served by the API server itself, not by a definition."""
        return any(key[0] == group for key in self._builtin)

    def _rebuild(self) -> None:
        kinds = dict(self._builtin)
        for custom in self._by_definition.values():
            for kind in custom:
                kinds.setdefault(_key(kind), kind)
        self._kinds = kinds
        self._sharing = Counter((k.stored_as.group, k.stored_as.plural) for k in kinds.values())
        self.generation += 1


def _key(kind: ServedKind) -> tuple[str, str, str]:
    return (kind.resource.group, kind.resource.version, kind.resource.plural)
