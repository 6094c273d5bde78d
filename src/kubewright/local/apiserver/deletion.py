"""What a deletion does to an object: grace, finalizers, propagation (rest.BeforeDelete)."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubewright.api.resource import Object
from kubewright.api.time import format_time, parse_time
from kubewright.local.apiserver.crd.lifecycle import plan_deletion as hold_definition
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.options import DeleteOptions

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
    "this warning"
)


class DeletionPlan(msgspec.Struct, frozen=True):
    """What is to be done: `obj` is the object to write first, if any; then it may be removed."""

    obj: Object | None
    remove: bool


def plan_deletion(
    kind: ServedKind, obj: Object, options: DeleteOptions, now: datetime
) -> DeletionPlan:
    """Decide what a deletion does to the object. Pure: `obj` is not changed."""
    obj = {**obj, "metadata": dict(obj["metadata"])}
    metadata = obj["metadata"]
    if _is_namespace(kind):
        return _plan_namespace(obj, now)
    if _is_definition(kind):
        return _plan_definition(obj, now)
    graceful, pending = _begin_grace(kind, obj, options, now)
    if pending:
        return DeletionPlan(None, remove=False)
    finalizers = _finalizers(kind, metadata, options)
    changed = finalizers != (metadata.get("finalizers") or [])
    if changed:
        _set_finalizers(metadata, finalizers)
    if not graceful:
        if not finalizers:
            return DeletionPlan(None, remove=True)
        marked = _mark(metadata, now)
        return DeletionPlan(obj if marked or changed else None, remove=False)
    if finalizers or metadata["deletionGracePeriodSeconds"] > 0:
        return DeletionPlan(obj, remove=False)
    return DeletionPlan(obj, remove=True)


def _begin_grace(
    kind: ServedKind, obj: Object, options: DeleteOptions, now: datetime
) -> tuple[bool, bool]:
    """Return (a graceful deletion begins or is shortened, one is on its way and stays as it is)."""
    if not _is_pod(kind):
        return False, False
    metadata = obj["metadata"]
    wanted = options.grace_period_seconds
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if deleted is not None:
        if grace is None:
            return False, False
        if wanted is None or wanted >= grace:
            return False, True
        moment = parse_time(deleted) + timedelta(seconds=wanted - grace)
        metadata["deletionTimestamp"] = format_time(moment)
        metadata["deletionGracePeriodSeconds"] = max(wanted, 0)
        return True, False
    period = _pod_period(obj, wanted)
    metadata["deletionTimestamp"] = format_time(now + timedelta(seconds=period))
    metadata["deletionGracePeriodSeconds"] = period
    _raise_generation(metadata)
    return True, False


def _pod_period(pod: Object, wanted: int | None) -> int:
    """Return the seconds a pod may take; none on no node, none where it has ended."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    period = wanted if wanted is not None else spec.get("terminationGracePeriodSeconds", 30)
    return 1 if period < 0 else int(period)


def _finalizers(kind: ServedKind, metadata: Object, options: DeleteOptions) -> list[str]:
    """Return the finalizers with those of the propagation policy, and without the others."""
    finalizers: list[str] = list(metadata.get("finalizers") or [])
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    orphan, foreground = ORPHAN in finalizers, FOREGROUND in finalizers
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        orphan, foreground = options.orphan_dependents, False
    elif policy is not None:
        orphan, foreground = policy == "Orphan", policy == "Foreground"
    elif not orphan and not foreground and is_orphaning(kind):
        orphan = True
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return kept if sorted(kept) != sorted(finalizers) else finalizers


def is_orphaning(kind: ServedKind) -> bool:
    """Tell whether a deletion without a policy leaves dependents alone: only a Job's does."""
    return (kind.resource.group, kind.resource.plural) == ("batch", "jobs")


def _mark(metadata: Object, now: datetime) -> bool:
    """Mark an object as being deleted, its finalizers pending."""
    before = (metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds"))
    if before[0] is None:
        _raise_generation(metadata)
        metadata["deletionTimestamp"] = format_time(now)
    metadata["deletionGracePeriodSeconds"] = 0
    return before != (metadata["deletionTimestamp"], 0)


def _raise_generation(metadata: Object) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _set_finalizers(metadata: Object, finalizers: list[str]) -> None:
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _plan_namespace(obj: Object, now: datetime) -> DeletionPlan:
    """A namespace terminates first; its own finalizers, in spec, hold it until it is empty."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") is None:
        metadata["deletionTimestamp"] = format_time(now)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return DeletionPlan(obj, remove=False)
    held = (obj.get("spec") or {}).get("finalizers") or metadata.get("finalizers")
    return DeletionPlan(None, remove=not held)


def _plan_definition(obj: Object, now: datetime) -> DeletionPlan:
    """A definition waits until its objects are gone; its finalizer is put on by DELETE alone."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") is None:
        return DeletionPlan(hold_definition(obj, format_time(now)), remove=False)
    return DeletionPlan(None, remove=not metadata.get("finalizers"))


def returns_object(kind: ServedKind) -> bool:
    """Tell whether a deletion at once answers with the object instead of a Status."""
    return kind.resource.group == "" and kind.resource.plural in _RETURNED


_RETURNED = frozenset(
    {
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
    }
)


def _is_pod(kind: ServedKind) -> bool:
    return kind.resource.group == "" and kind.resource.plural == "pods"


def _is_definition(kind: ServedKind) -> bool:
    return kind.resource.plural == "customresourcedefinitions" and not kind.is_custom


def _is_namespace(kind: ServedKind) -> bool:
    return kind.resource.group == "" and kind.resource.plural == "namespaces"
