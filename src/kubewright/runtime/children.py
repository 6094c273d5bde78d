"""The children of an object, as its status function sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from kubewright.api.resource import GroupVersionKind, Object, Resource
from kubewright.runtime.readiness import Progress, Readiness, compute_child_readiness

Find: TypeAlias = Callable[[Resource, Mapping[str, str]], list[Object]]


def find_nothing(resource: Resource, labels: Mapping[str, str]) -> list[Object]:
    """Find no objects: the view of a test that has none."""
    return []


class Children:
    """The desired children as they are now, with those just written; missing ones are left out.

    To test a status function, build one from `objects`: `Children([deployment])`. It is iterable,
    in the order in which the children were yielded.

    `find` reads further kinds, which the operator must name in `reads` or `watches`.
    """

    def __init__(self, objects: Sequence[Object], find: Find = find_nothing) -> None:
        self._objects = tuple(objects)
        self._find = find
        self._searched = False

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def searched(self) -> bool:
        """Whether further objects than the children were looked at."""
        return self._searched

    def of(self, resource: Resource) -> list[Object]:
        """Return the children of a kind, in the order in which they were yielded."""
        return [obj for obj in self._objects if GroupVersionKind.of(obj) == resource.gvk]

    def get(self, resource: Resource, name: str) -> Object | None:
        """Return a child by name, or None when it does not exist yet."""
        return next((obj for obj in self.of(resource) if obj["metadata"]["name"] == name), None)

    def find(self, resource: Resource, labels: Mapping[str, str]) -> list[Object]:
        """Return the objects of another kind with these labels, in the owner's namespace, by name.

        Of a kind that belongs to the whole cluster all are searched. A Deployment's pods are found
        so: they are not the custom resource's own children.
        """
        self._searched = True
        found = self._find(resource, labels)
        return sorted(found, key=lambda obj: str(obj["metadata"]["name"]))

    def readiness(self) -> Readiness:
        """Return the least progress among the children, naming the child that it is about."""
        worst = Readiness(Progress.CURRENT)
        for obj in self._objects:
            found = compute_child_readiness(obj)
            if _RANK[found.progress] > _RANK[worst.progress]:
                name = f"{obj['kind']} {obj['metadata']['name']}"
                worst = Readiness(found.progress, f"{name}: {found.message}")
        return worst


_RANK = {
    Progress.CURRENT: 0,
    Progress.IN_PROGRESS: 1,
    Progress.TERMINATING: 2,
    Progress.FAILED: 3,
}
