"""Frees pods that no Job will count any more: their finalizer would keep them for ever."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.metadata import controller_of
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType, Entry
from kubewright.cache.store import Store
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import TRACKING_FINALIZER, is_tracked
from kubewright.local.controllers.job.pod_writer import release_pod
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.watch import Watch

NAME = "job-orphan-pod"


def build_orphan_pod_controller() -> Controller:
    """Build the controller that takes the finalizer from pods whose Job is gone or finished.

    A Job that is deleted at once, or whose dependents are orphaned, cannot do it itself. Pods of
    controllers other than Jobs, and of Jobs that another controller manages, are left alone.
    """
    pods = _PodsOfJob()
    return Controller(
        NAME,
        builtin.POD,
        _reconcile,
        watches=[Watch(builtin.JOB, pods.of, changes=_frees_pods)],
        setup=pods.set_up,
        changes=_has_finalizer,
    )


def is_orphan(pod: Object, job: Object | None) -> bool:
    """Tell whether a pod with the finalizer has nobody who would remove it.

    Arguments:
        pod: The pod.
        job: The Job of the name that its controller reference has, if there is one.
    """
    reference = controller_of(pod)
    if reference is None:
        return True
    if reference["kind"] != "Job" or reference["apiVersion"] != builtin.JOB.api_version:
        return False
    if job is None or job["metadata"]["uid"] != reference["uid"]:
        return True
    view = Job(job)
    return view.is_finished and not view.is_managed_elsewhere


async def _reconcile(key: NamespacedName, ctx: Context) -> None:
    pod = ctx.get(builtin.POD, key)
    if pod is None or not is_tracked(pod):
        return
    reference = controller_of(pod)
    owner = NamespacedName(key.namespace, reference["name"]) if reference is not None else None
    job = ctx.get(builtin.JOB, owner) if owner is not None else None
    if is_orphan(pod, job) and (error := await release_pod(ctx, pod)) is not None:
        raise error


def _has_finalizer(change: Change) -> bool:
    return TRACKING_FINALIZER in (change.entry.meta.finalizers or ())


def _frees_pods(change: Change) -> bool:
    return change.type is ChangeType.DELETED or Job(change.entry.object()).is_finished


class _PodsOfJob:
    """Finds the pods of a Job that still have the finalizer."""

    def __init__(self) -> None:
        self._pods: Store | None = None

    def set_up(self, cache: Cache) -> None:
        self._pods = cache.store(builtin.POD)

    def of(self, job: Entry) -> Iterable[NamespacedName]:
        if self._pods is None:
            return []
        return [
            entry.key
            for entry in self._pods.owned_by(job.meta.uid)
            if TRACKING_FINALIZER in (entry.meta.finalizers or ())
        ]
