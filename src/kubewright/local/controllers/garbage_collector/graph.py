"""The graph of owners and dependents over all kinds, by UID. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubewright.api.metadata import ObjectMeta, OwnerReference
from kubewright.api.resource import Resource

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Node(msgspec.Struct, frozen=True):
    """An object: the resource that serves it, and its metadata."""

    resource: Resource
    meta: ObjectMeta

    @property
    def uid(self) -> str:
        """The identity that references follow."""
        return self.meta.uid

    @property
    def owners(self) -> list[OwnerReference]:
        """The references to its owners."""
        return self.meta.owner_references or []

    @property
    def waits_for_dependents(self) -> bool:
        """Tell whether it is being deleted in the foreground: dependents go first."""
        return self.meta.is_deleting and FOREGROUND in (self.meta.finalizers or ())

    @property
    def leaves_orphans(self) -> bool:
        """Tell whether it is being deleted and its dependents shall stay."""
        return self.meta.is_deleting and ORPHAN in (self.meta.finalizers or ())

    def blocks(self, owner_uid: str) -> bool:
        """Tell whether an owner that is deleted in the foreground waits for this object."""
        return any(ref.uid == owner_uid and ref.block_owner_deletion for ref in self.owners)

    def may_be_owned_by(self, owner: Node) -> bool:
        """Tell whether a reference to `owner` is valid: in its own namespace, or cluster-scoped."""
        return not owner.resource.namespaced or owner.meta.namespace == self.meta.namespace

    def is_owned_by(self, owner: Node, reference: OwnerReference) -> bool:
        """Tell whether a reference by UID also names its owner rightly.

        One that does not is looked up by what it says: under that name there may be nobody.
        """
        same = (reference.name, reference.kind) == (owner.meta.name, owner.resource.kind)
        return same and self.may_be_owned_by(owner)


class OwnerGraph:
    """Every object that a monitor reported, and who depends on whom.

    `put` and `remove` return the UIDs that need a look because of the change. The graph follows
    watches, so it may be behind; nobody may delete on its word alone.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        """Return the object of a UID."""
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[Node]:
        """Return the objects that refer to a UID as an owner."""
        return [self._nodes[dependent] for dependent in self._dependents.get(uid, ())]

    def put(self, node: Node) -> list[str]:
        """Take an object's present state; return the UIDs to look at."""
        before = self._nodes.get(node.uid)
        self._nodes[node.uid] = node
        if before is not None:
            self._unlink(before)
        for reference in node.owners:
            self._dependents.setdefault(reference.uid, {})[node.uid] = None
        suspects = [node.uid] if self._is_suspect(node) else []
        return [*suspects, *self._released_owners(before, node)]

    def remove(self, uid: str) -> list[str]:
        """Forget an object; return the UIDs to look at."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return []
        self._unlink(node)
        waiting = [ref.uid for ref in node.owners if self._waits(ref.uid)]
        return [*self._dependents.get(uid, ()), *waiting]

    def suspects(self) -> list[str]:
        """Return every UID that needs a look, for the start."""
        return [uid for uid, node in self._nodes.items() if self._is_suspect(node)]

    def _is_suspect(self, node: Node) -> bool:
        """Tell whether a look could find something to do."""
        if node.meta.is_deleting:
            return node.waits_for_dependents or node.leaves_orphans
        for reference in node.owners:
            owner = self._nodes.get(reference.uid)
            if (
                owner is None
                or owner.waits_for_dependents
                or not node.is_owned_by(owner, reference)
            ):
                return True
        return False

    def _released_owners(self, before: Node | None, node: Node) -> Iterable[str]:
        """Return waiting owners that the object blocked and blocks no more."""
        if before is None:
            return ()
        uids = (ref.uid for ref in before.owners if ref.block_owner_deletion)
        return [uid for uid in uids if self._waits(uid) and not node.blocks(uid)]

    def _waits(self, uid: str) -> bool:
        owner = self._nodes.get(uid)
        return owner is not None and owner.waits_for_dependents

    def _unlink(self, node: Node) -> None:
        for reference in node.owners:
            siblings = self._dependents.get(reference.uid)
            if siblings is not None:
                siblings.pop(node.uid, None)
                if not siblings:
                    del self._dependents[reference.uid]
