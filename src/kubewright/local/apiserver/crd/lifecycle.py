"""What becomes of CustomResourceDefinitions over time: names, establishing, removal.

The functions decide; the REST layer carries out. `DefinitionLifecycle` stands in between: one pass
looks at all definitions and writes through the functions that it was given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from kubewright.api.conditions import Condition, set_condition
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd.accepted_names import plan_names

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_PENDING = Condition(
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
_IN_PROGRESS = Condition(
    "Terminating",
    "True",
    "InstanceDeletionInProgress",
    "CustomResource deletion is in progress",
)
_COMPLETED = Condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")

ListDefinitions: TypeAlias = Callable[[], Sequence[Object]]
"""Returns all definitions as they are now, to be read only."""
WriteStatus: TypeAlias = Callable[[Object], Awaitable[None]]
"""Writes the status of a definition."""
DeleteInstances: TypeAlias = Callable[[Object], Awaitable[int]]
"""Deletes the objects of a definition's kind; returns how many are still there."""
RemoveFinalizer: TypeAlias = Callable[[Object], Awaitable[None]]
"""Takes the cleanup finalizer off a definition, which deletes it."""


def is_terminating(crd: Object) -> bool:
    """Tell whether a definition is being deleted and waits for its objects to go."""
    metadata = crd["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP_FINALIZER in (
        metadata.get("finalizers") or ()
    )


def plan_deletion(crd: Object, now: str) -> Object:
    """Return the definition as DELETE stores and answers it: held by the cleanup finalizer.

    The finalizer is not there before: only DELETE puts it on. A definition that is being deleted
    already is returned as it is.
    """
    metadata = dict(crd["metadata"])
    if metadata.get("deletionTimestamp"):
        return crd
    metadata["deletionTimestamp"] = now
    finalizers = metadata.get("finalizers") or []
    if CLEANUP_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
    return {**crd, "metadata": metadata, "status": _with_condition(crd, _PENDING, now)}


def plan_terminating(crd: Object, remaining: int, now: str) -> Object:
    """Return the status of a definition whose objects are being deleted.

    Args:
        crd: the definition.
        remaining: how many objects of its kind are left.
        now: the time to write into the condition when it changes.
    """
    return _with_condition(crd, _IN_PROGRESS if remaining else _COMPLETED, now)


def _with_condition(crd: Object, condition: Condition, now: str) -> Object:
    status = crd.get("status") or {}
    conditions = set_condition(status.get("conditions") or (), condition, now=now)
    return {**status, "conditions": conditions}


class DefinitionLifecycle:
    """Brings definitions forward, one pass at a time."""

    def __init__(
        self,
        definitions: ListDefinitions,
        write_status: WriteStatus,
        delete_instances: DeleteInstances,
        remove_finalizer: RemoveFinalizer,
        now: Callable[[], str],
    ) -> None:
        self._definitions = definitions
        self._write_status = write_status
        self._delete_instances = delete_instances
        self._remove_finalizer = remove_finalizer
        self._now = now

    async def run_once(self) -> bool:
        """Do what is due for all definitions; return whether anything waits to be tried again.

        Call it after each change of a definition, and again a moment later while it returns True:
        objects with finalizers of their own hold a terminating definition.
        """
        waiting = False
        for crd in self._definitions():
            if crd["metadata"].get("deletionTimestamp"):
                waiting |= await self._terminate(crd)
            else:
                await self._accept_names(crd)
        return waiting

    async def _accept_names(self, crd: Object) -> None:
        # Read afresh: an earlier step of this pass may have accepted names of another definition.
        status = plan_names(crd, self._definitions(), self._now())
        if status is not None:
            await self._write_status({**crd, "status": status})

    async def _terminate(self, crd: Object) -> bool:
        if not is_terminating(crd):
            return False
        remaining = await self._delete_instances(crd)
        if remaining:
            status = plan_terminating(crd, remaining, self._now())
            if status != crd.get("status"):
                await self._write_status({**crd, "status": status})
            return True
        await self._remove_finalizer(crd)
        return False
