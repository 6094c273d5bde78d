"""The Job controller: read, plan, write."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, Conflict
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.resource_version import is_newer
from kubewright.local.controllers.core_event import with_recorder
from kubewright.local.controllers.job.backoff import Backoff
from kubewright.local.controllers.job.counting import Counting, plan_counting
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import (
    TRACKING_FINALIZER,
    is_failed,
    is_succeeded,
    is_tracked,
    uid_of,
)
from kubewright.local.controllers.job.pod_plan import PodPlan, plan_pods
from kubewright.local.controllers.job.pod_template import NameSource
from kubewright.local.controllers.job.pod_writer import apply_pod_plan, release_pods
from kubewright.local.controllers.job.status import (
    PodChanges,
    Progress,
    build_progress,
    count_released,
    expect_deletions,
    with_final_condition,
    with_interim_condition,
)
from kubewright.local.controllers.job.tally import Tally, build_tally
from kubewright.local.controllers.job.verdict import Verdict, judge
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    apply_ownership,
    find_candidates,
    plan_ownership,
)
from kubewright.local.controllers.unseen import UnseenObjects
from kubewright.local.controllers.waking import Claimants
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.event_series import EventType
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

NAME = "job-controller"

_UNSEEN = timedelta(seconds=1)
_FIRST_RETRY = timedelta(seconds=1)
_LAST_RETRY = timedelta(minutes=1)


def build_job_controller(recorder: EventRecorder) -> Controller:
    """Build the controller that runs Jobs.

    Guarantees: each pod is counted once, and no pod is made twice because of a crash, a lost answer
    or a view that is behind. The finalizer of a pod keeps it until the status has it (`counting`);
    names that follow from the pods that are there make the API server refuse a second creation.
    """
    claimants = Claimants(builtin.JOB)
    reconciler = JobReconciler()
    return Controller(
        NAME,
        builtin.JOB,
        with_recorder(reconciler.reconcile, recorder),
        owns=[builtin.POD],
        watches=[Watch(builtin.POD, claimants.of_orphan)],
        setup=claimants.set_up,
    )


class Memory(msgspec.Struct):
    """What is remembered of one Job; a new process does without.

    Attributes:
        uid: Whose memory it is.
        written: The version of the Job after the last write: an older view is not acted on.
        backoff: The failures since the last success.
        made: Pods that were created, until the view shows them.
        released: UIDs of pods whose finalizer was removed, until the view shows it.
        used: The highest number of a pod's name, by index.
        refusals: How many looks in a row could not make or delete pods.
    """

    uid: str
    written: str = ""
    backoff: Backoff | None = None
    made: UnseenObjects = msgspec.field(default_factory=UnseenObjects)
    released: set[str] = msgspec.field(default_factory=set)
    used: dict[int | None, int] = msgspec.field(default_factory=dict)
    refusals: int = 0


class JobReconciler:
    """Reconciles Jobs."""

    def __init__(self) -> None:
        self._memories: dict[NamespacedName, Memory] = {}

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring one Job a step further."""
        obj = ctx.get(builtin.JOB, key)
        job = None if obj is None else Job(obj)
        if job is None or job.is_managed_elsewhere or job.is_finished:
            self._memories.pop(key, None)
            return None
        memory = self._recall(key, job)
        if is_newer(memory.written, job.obj["metadata"].get("resourceVersion") or ""):
            return Result(after=_UNSEEN)
        if not job.has_known_mode:
            note = "Skipped Job sync because completion mode is unknown"
            ctx.recorder.event(job.obj, "Warning", "UnknownCompletionMode", note)
            return None
        pods = await _claim_pods(ctx, job)
        pods += memory.made.missing_in(ctx.store(builtin.POD))
        memory.released &= {uid_of(pod) for pod in pods if is_tracked(pod)}
        return await JobLook(ctx, job, memory, build_tally(job, pods, memory.released)).run()

    def _recall(self, key: NamespacedName, job: Job) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != job.uid:
            memory = self._memories[key] = Memory(job.uid)
        return memory


async def _claim_pods(ctx: Context, job: Job) -> list[Object]:
    selector = LabelSelector.of(job.spec.get("selector"))
    candidates = find_candidates(ctx.store(builtin.POD), job.obj, selector)
    claim = plan_ownership(job.obj, selector, candidates)
    return await apply_ownership(
        ctx, job.obj, builtin.JOB, builtin.POD, claim, finalizers=[TRACKING_FINALIZER]
    )


class JobLook:
    """One look at a Job: pods first, then the status, then the finalizers, then the counters.

    When the Job ends, the status comes before its pods.
    """

    def __init__(self, ctx: Context, job: Job, memory: Memory, tally: Tally) -> None:
        self._ctx = ctx
        self._job = job
        self._memory = memory
        self._tally = tally
        self._now = ctx.clock.now()
        self._stored = job.obj

    async def run(self) -> Result:
        """Carry the look out.

        Raises:
            KubewrightError: a write of the status or of a finalizer failed, or the view is behind.
        """
        job, tally, now = self._job, self._tally, self._now
        start = job.start or (None if job.is_suspended else now)
        backoff = _recall_backoff(self._memory, job, tally)
        backoff = backoff.after(tally.newly_succeeded, tally.newly_failed)
        verdict = judge(job, tally, start, now)
        plan = plan_pods(job, tally, verdict, backoff, now)
        # How the Job ends is written before its pods are deleted. A look that dies in between would
        # leave pods whose deletion the next one takes for failures, and so decide otherwise.
        changes = expect_deletions(tally) if verdict is not None else await self._change_pods(plan)
        progress = build_progress(job, tally, verdict, changes, start=start, now=now)
        counting = plan_counting(job, tally, progress.status, progress.verdict)
        status = with_interim_condition(counting.status, progress.verdict, now)
        await self._write(status)
        self._memory.backoff = backoff
        self._tell_suspension(progress)
        if verdict is not None:
            changes = await self._change_pods(plan)
            if changes.error is not None:
                return Result(after=self._note_refusal(changes))
        await self._finish(status, counting, progress.verdict)
        waits = [plan.after, self._note_refusal(changes)]
        if progress.verdict is None and (deadline := job.deadline(start)) is not None:
            waits.append(deadline - now)
        return Result(after=min((wait for wait in waits if wait is not None), default=None))

    def _note_refusal(self, changes: PodChanges) -> timedelta | None:
        """Return when to try again what was refused, such as for a quota; None if nothing was.

        The wait is counted here: were the error raised, the look at the deadline would wait too.

        Raises:
            KubewrightError: the view was behind.
        """
        if changes.error is None:
            self._memory.refusals = 0
            return None
        if isinstance(changes.error, AlreadyExists | Conflict):
            raise changes.error
        self._memory.refusals += 1
        if self._memory.refusals == 1:
            self._ctx.logger.warning("pods cannot be changed now: %s", changes.error)
        doubled: int = 2 ** min(self._memory.refusals - 1, 10)
        return min(_FIRST_RETRY * doubled, _LAST_RETRY)

    async def _change_pods(self, plan: PodPlan) -> PodChanges:
        changes = await apply_pod_plan(self._ctx, self._job, self._tally, plan, self._names())
        for pod in changes.created:
            self._memory.made.add(pod)
        return changes

    def _names(self) -> NameSource:
        store, namespace = self._ctx.store(builtin.POD), self._job.key.namespace

        def is_taken(name: str) -> bool:
            return store.get(NamespacedName(namespace, name)) is not None

        return NameSource(self._job, self._tally.pods, is_taken, self._memory.used)

    async def _finish(self, status: Object, counting: Counting, verdict: Verdict | None) -> None:
        """Let ended pods go, count them, and end the Job if it ends."""
        status = await self._release(status, counting)
        finished = None
        if verdict is not None and counting.is_whole:
            finished = with_final_condition(status, verdict, self._now)
        await self._write(finished or status)
        if verdict is not None and finished is not None:
            self._tell_end(verdict, finished)

    async def _release(self, status: Object, counting: Counting) -> Object:
        """Remove finalizers; return the status with the pods counted that have none any more."""
        released, error = await release_pods(self._ctx, counting.release)
        self._memory.released |= released
        tracked = {uid_of(pod) for pod in self._tally.tracked} - released
        status = count_released(status, tracked)
        if error is not None:
            await self._write(status)
            raise error
        return status

    async def _write(self, status: Object) -> None:
        if status == (self._stored.get("status") or {}):
            return
        written = {**self._stored, "status": status}
        self._stored = await self._ctx.replace(written, subresource="status")
        self._memory.written = self._stored["metadata"]["resourceVersion"]

    def _tell_suspension(self, progress: Progress) -> None:
        if progress.suspended is not None:
            reason = "Suspended" if progress.suspended else "Resumed"
            self._tell("Normal", reason, f"Job {reason.lower()}")

    def _tell_end(self, verdict: Verdict, status: Object) -> None:
        if not verdict.is_success:
            self._tell("Warning", verdict.reason, verdict.message)
            return
        wanted = self._job.completions
        if wanted is not None and int(status.get("succeeded") or 0) > wanted:
            note = "Too many succeeded pods running after completion count reached"
            self._tell("Warning", "TooManySucceededPods", note)
        self._tell("Normal", "Completed", "Job completed")

    def _tell(self, type: EventType, reason: str, note: str) -> None:
        self._ctx.recorder.event(self._job.obj, type, reason, note)


def _recall_backoff(memory: Memory, job: Job, tally: Tally) -> Backoff:
    """Return the failures that were known; a new process reads them from the pods that are left."""
    if memory.backoff is not None:
        return memory.backoff
    new = {uid_of(pod) for pod in (*tally.newly_succeeded, *tally.newly_failed)}
    old = [pod for pod in tally.pods if uid_of(pod) not in new]
    return Backoff().after(
        [pod for pod in old if is_succeeded(pod)], [pod for pod in old if is_failed(pod, job)]
    )
