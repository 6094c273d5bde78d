"""The life of a change of one custom resource, from the key to the status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Generic

from kubewright.api.conditions import READY, find_condition
from kubewright.api.errors import (
    APIError,
    BadRequest,
    InternalError,
    Invalid,
    KubewrightError,
    NotFound,
    Remedy,
    TerminalError,
    leaves,
)
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object, Resource
from kubewright.cache.entry import Change, Entry
from kubewright.runtime.applied_memory import AppliedMemory
from kubewright.runtime.blocking import adapt
from kubewright.runtime.child_kind import ChildKey, ChildMap, build_children
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context, Stores
from kubewright.runtime.controller import QUIET_REREADS, STALLED_AFTER
from kubewright.runtime.desired import (
    Action,
    Outcome,
    Step,
    apply_plan,
    find_children,
    plan_children,
)
from kubewright.runtime.failure import (
    deepest_cause,
    describe,
    is_cancellation,
    is_end_of_namespace,
    remedy_of,
)
from kubewright.runtime.finalizers import ensure_finalizer, has_finalizer, remove_finalizer
from kubewright.runtime.managed_kind import AsyncFunction, ManagedKind, T
from kubewright.runtime.readiness import Progress
from kubewright.runtime.result import Result, earliest
from kubewright.runtime.settled import SettledState, build_settled_state
from kubewright.runtime.status import (
    StatusValue,
    Summary,
    build_status,
    condition_reason,
    dump_status,
    ensure_status,
    steady_message,
)
from kubewright.runtime.thread_pool import THREADS, ThreadPool
from kubewright.runtime.user_function import call, check_status, list_children, locate
from kubewright.runtime.validation import judge
from kubewright.runtime.watch import Watch

KIND_NOT_INSTALLED = "KindNotInstalled"
"""The reason of an object that wants a child of a kind that the API server does not serve."""


class Refused(TerminalError):
    """The object cannot be worked on as it is; `reason` is the word for its conditions."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KindReconciler(Generic[T]):
    """Reconcile the objects of one kind of an operator.

    What it remembers between two reconciles only saves work; a new one converges to the same end.
    """

    def __init__(
        self,
        operator: str,
        managed: ManagedKind[T],
        *,
        timeout: timedelta | None = None,
        threads: ThreadPool | None = None,
    ) -> None:
        self._operator = operator
        self._managed = managed
        self._timeout = timeout
        threads = ThreadPool(operator, THREADS) if threads is None else threads
        self._prepare = managed.prepare and adapt(managed.prepare, threads)
        self._act = managed.reconcile and adapt(managed.reconcile, threads)
        self._clean_up = managed.finalize and adapt(managed.finalize, threads)
        self._memory = AppliedMemory()
        self._failures: dict[NamespacedName, int] = {}
        self._uids: dict[NamespacedName, str] = {}
        self._accepted: dict[NamespacedName, bytes] = {}
        self._blocked: dict[NamespacedName, set[ChildKey]] = {}
        self._settled: dict[NamespacedName, SettledState] = {}

    @property
    def finalizer(self) -> str:
        """The finalizer of the operator on objects of this kind."""
        # The core group has no name, and a finalizer needs one before its slash.
        return f"{self._managed.resource.group or 'kubewright.dev'}/{self._operator}"

    @property
    def side_manager(self) -> str:
        """The field manager of what `reconcile` applies by itself: the engine never prunes that."""
        return f"{self._operator}-reconcile"

    def watch_strangers(self) -> list[Watch]:
        """Build the watches that wake an object when what holds its child's name changes.

        A stranger has no reference to the object that waits for the name.
        """

        def blocked_by(entry: Entry) -> Iterable[NamespacedName]:
            child = (entry.resource.gvk, entry.key)
            return [key for key, children in self._blocked.items() if child in children]

        def is_any_blocked(change: Change) -> bool:
            return bool(self._blocked)

        owned = self._managed.owns.values()
        return [Watch(child.resource, blocked_by, is_any_blocked) for child in owned]

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        """Bring one object and its children to what they should be, and say so in its status."""
        store = ctx.store(self._managed.resource)
        entry = store.get(key)
        if entry is None:
            self._forget(key)
            return None
        if not store.is_served:
            # Its definition is gone, and nothing can be written; it is woken when that is back.
            return None
        if self._is_settled(ctx, entry):
            return None
        owner = entry.object()
        if self._uids.get(key, entry.meta.uid) != entry.meta.uid:
            # Deleted and made again while nobody looked: nothing of the former one counts.
            self._forget(key)
        self._uids[key] = entry.meta.uid
        try:
            if entry.error is not None:
                raise Refused("Undecodable", f"the object cannot be decoded: {entry.error}")
            if entry.meta.is_deleting:
                return await self._finalize(ctx, owner, entry.raw)
            result = await self._converge(ctx, owner, entry.raw)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            if is_cancellation(error):
                raise
            await self._report_failure(ctx, owner, error)
            raise
        self._failures.pop(key, None)
        return result

    def plan(self, stores: Stores, entry: Entry) -> list[Step]:
        """Return what a reconcile would do with the children of an object now.

        Raises:
            TerminalError: the object would stall.
            DecodeError: it does not fit the model of its kind.
        """
        owner = entry.object()
        if entry.meta.is_deleting:
            ordered = self._managed.ordered_deletion and has_finalizer(owner, self.finalizer)
            return self._plan(owner, {}, self._read_live(stores, owner, {})) if ordered else []
        self._validate(entry.key, entry.raw)
        missing = self._find_missing(stores)
        desired = self._leave_out(missing, self._build_desired(owner, entry.raw))
        return self._plan(owner, desired, self._read_live(stores, owner, desired), missing)

    async def _finalize(self, ctx: Context, owner: Object, raw: bytes) -> Result | None:
        managed = self._managed
        if not has_finalizer(owner, self.finalizer):
            return None
        if self._clean_up is not None:
            obj = managed.kind.decode(raw)
            result = await call(self._clean_up, obj, ctx, self._timeout)
            if result is not None:
                return result
        if managed.ordered_deletion and await self._delete_children(ctx, owner):
            # Their end is an event.
            return None
        try:
            await remove_finalizer(ctx, managed.resource, owner, self.finalizer)
        except NotFound:
            ctx.logger.debug("the object ended before its finalizer was removed")
        return None

    async def _delete_children(self, ctx: Context, owner: Object) -> bool:
        """Delete the children whose turn it is; tell whether there are any left."""
        live = self._read_live(ctx, owner, {})
        steps = self._plan(owner, {}, live)
        outcome = await apply_plan(ctx, owner, steps, manager=self._operator, memory=self._memory)
        if outcome.failures:
            raise ExceptionGroup("children were not deleted", outcome.failures)
        return bool(find_children(owner, live.values(), manager=self._operator))

    async def _converge(self, ctx: Context, owner: Object, raw: bytes) -> Result | None:
        managed = self._managed
        if managed.needs_finalizer:
            owner = await ensure_finalizer(ctx, managed.resource, owner, self.finalizer)
        elif has_finalizer(owner, self.finalizer):
            # A former version of this operator finalized; nothing would remove it at the end.
            owner = await remove_finalizer(ctx, managed.resource, owner, self.finalizer)
        self._validate(ctx.request, raw)
        before = await self._call(self._prepare, ctx, raw)
        missing = self._find_missing(ctx)
        desired = self._leave_out(missing, self._build_desired(owner, raw))
        live = self._read_live(ctx, owner, desired)
        steps = self._plan(owner, desired, live, missing)
        self._note_blocked(ctx.request, steps)
        _note_plan(ctx, desired, steps)
        outcome = await apply_plan(ctx, owner, steps, manager=self._operator, memory=self._memory)
        if outcome.failures:
            failures = [self._blame(failure) for failure in outcome.failures]
            raise ExceptionGroup("children were refused", failures)
        result = earliest(before, await self._call(self._act, ctx, raw))
        children = self._view(ctx, owner, desired, live, outcome)
        summary = self._summarise(desired, children, steps)
        value: StatusValue = {}
        if managed.status is not None:
            value = check_status(managed.status(self._decode(raw), children), managed.status)
        written = await self._write_status(ctx, owner, value, summary)
        _tell_of_missing(ctx, owner, summary)
        # What was held back was so for a state from before the writes: it is looked at once more.
        is_done = len(children) == len(desired) and not _find_waiting(steps)
        if managed.is_pure and is_done and not missing and not children.searched:
            now = ctx.clock.monotonic()
            self._note_settled(ctx.request, build_settled_state(owner, written, children, now))
        return result

    async def _call(
        self, function: AsyncFunction[T] | None, ctx: Context, raw: bytes
    ) -> Result | None:
        if function is None:
            return None
        return await call(function, self._decode(raw), ctx, self._timeout)

    def _is_settled(self, ctx: Context, entry: Entry) -> bool:
        settled = self._settled.get(entry.key)
        if settled is None:
            return False
        stores = [ctx.store(kind.resource) for kind in self._managed.owns.values()]
        if not all(store.is_served for store in stores):
            return False
        owned = (child for store in stores for child in store.owned_by(entry.meta.uid))
        return settled.is_state_of(entry, owned, ctx.clock.monotonic())

    def _note_settled(self, key: NamespacedName, state: SettledState | None) -> None:
        if state is None:
            self._settled.pop(key, None)
        else:
            self._settled[key] = state

    def _decode(self, raw: bytes) -> T:
        """Decode the object, and fill in what a webhook would have, where none is served.

        Each function gets an object of its own: what one changes in it, no other sees.
        """
        obj = self._managed.kind.decode(raw)
        for fill in self._managed.default:
            try:
                fill(obj)
            except (Exception, SystemExit) as error:
                raise Refused("DefaultFailed", describe(error)) from error
        return obj

    def _validate(self, key: NamespacedName, raw: bytes) -> None:
        if not self._managed.validate:
            return
        accepted = self._accepted.get(key)
        old = None if accepted is None else self._decode(accepted)
        try:
            verdict = judge(self._managed.validate, self._decode(raw), old)
        except (Exception, SystemExit) as error:
            # It is a function of the object alone: called again, it would fail again.
            raise Refused("ValidateFailed", describe(error)) from error
        if verdict.refusals:
            # The sentences are for the user; where they were raised tells nothing more.
            raise Refused("Invalid", verdict.message)
        self._accepted[key] = raw

    def _build_desired(self, owner: Object, raw: bytes) -> ChildMap:
        managed = self._managed
        obj = self._decode(raw)
        if managed.desired is None:
            return {}
        try:
            wanted = list_children(managed.desired(obj), managed.desired)
        except (Exception, SystemExit) as error:
            # It is a function of the object alone: called again, it would fail again.
            raise Refused("DesiredFailed", describe(error)) from error
        try:
            return build_children(
                owner,
                wanted,
                managed.owns,
                manager=self._operator,
                owner_namespaced=managed.resource.namespaced,
            )
        except TerminalError as error:
            raise Refused("InvalidChild", f"{error} ({locate(managed.desired)})") from None

    def _blame(self, failure: Exception) -> Exception:
        """Say of a child that the server finds faulty which function desires it."""
        faulty = isinstance(failure, Invalid | BadRequest | InternalError)
        if not isinstance(failure, APIError) or not faulty or self._managed.desired is None:
            return failure
        message = f"{failure.message} ({locate(self._managed.desired)})"
        return type(failure)(message, failure.details, failure.code, failure.reason)

    def _find_missing(self, stores: Stores) -> frozenset[GroupVersionKind]:
        """Find the kinds of children that the API server does not serve."""
        owns = self._managed.owns.items()
        return frozenset(gvk for gvk, kind in owns if not stores.store(kind.resource).is_served)

    def _leave_out(self, missing: frozenset[GroupVersionKind], desired: ChildMap) -> ChildMap:
        """Leave out the desired children that an object can do without, of missing kinds."""
        owns = self._managed.owns
        skipped = {gvk for gvk in missing if owns[gvk].on_missing == "skip"}
        if not skipped:
            return desired
        return {key: child for key, child in desired.items() if key[0] not in skipped}

    def _read_live(self, stores: Stores, owner: Object, desired: ChildMap) -> ChildMap:
        """Read what the owner owns, and what has the name of a desired child.

        Of a kind that is not served nothing is there, whatever was seen before it went.
        """
        uid, owns = owner["metadata"]["uid"], self._managed.owns
        live: dict[ChildKey, Object] = {}
        for gvk, kind in owns.items():
            store = stores.store(kind.resource)
            for entry in store.owned_by(uid) if store.is_served else ():
                live[gvk, entry.key] = entry.object()
        for child in desired:
            if child not in live:
                store = stores.store(owns[child[0]].resource)
                found = store.get(child[1])
                if found is not None and store.is_served:
                    live[child] = found.object()
        return live

    def _plan(
        self,
        owner: Object,
        desired: ChildMap,
        live: ChildMap,
        missing: frozenset[GroupVersionKind] = frozenset(),
    ) -> list[Step]:
        return plan_children(
            owner,
            desired,
            live,
            self._managed.owns,
            manager=self._operator,
            memory=self._memory,
            missing=missing,
        )

    def _note_blocked(self, key: NamespacedName, steps: list[Step]) -> None:
        blocked = {
            (step.kind.resource.gvk, step.key) for step in steps if step.action is Action.REFUSE
        }
        if blocked:
            self._blocked[key] = blocked
        else:
            self._blocked.pop(key, None)

    def _view(
        self,
        ctx: Context,
        owner: Object,
        desired: ChildMap,
        live: ChildMap,
        outcome: Outcome,
    ) -> Children:
        """Show the desired children: as just written, else as the stores have them.

        One that was just deleted, to be made anew, is not there, whatever the stores still show.
        """
        known = {**live, **outcome.written}
        for key in outcome.deleted:
            known.pop(key, None)
        present = [known[key] for key in desired if key in known]
        namespace = owner["metadata"].get("namespace")

        def find(resource: Resource, labels: Mapping[str, str]) -> list[Object]:
            where = namespace if resource.namespaced else None
            return ctx.list(resource, namespace=where, labels=labels)

        return Children(present, find)

    def _summarise(self, desired: ChildMap, children: Children, steps: list[Step]) -> Summary:
        readiness = children.readiness()
        uninstalled = [str(step) for step in steps if step.action is Action.AWAIT_KIND]
        if uninstalled:
            rest = [] if readiness.is_ready else [readiness.message]
            return Summary(Progress.FAILED, KIND_NOT_INSTALLED, "; ".join([*uninstalled, *rest]))
        waits = _find_waiting(steps)
        if len(children) < len(desired) or waits:
            waiting = "; ".join(map(str, waits or steps)) or "a child does not exist yet"
            if readiness.progress is not Progress.FAILED:
                return Summary(Progress.IN_PROGRESS, "ChildrenNotReady", waiting)
        return Summary.of(readiness)

    async def _report_failure(self, ctx: Context, owner: Object, error: BaseException) -> None:
        """Say in the status why an object failed; a few races are not worth a word.

        A message that differs each time must not make a loop of writes and wake-ups: of failures in
        a row the first, second, fourth, … are written, and the one that stalls the object. What
        waits for a change has no next time: it is always written.
        """
        if is_end_of_namespace(error):
            return
        remedy = remedy_of(error)
        count = self._failures[ctx.request] = self._failures.get(ctx.request, 0) + 1
        if remedy is Remedy.REREAD and count <= QUIET_REREADS:
            return
        waits = remedy is Remedy.WAIT_FOR_CHANGE
        if not waits and count & (count - 1) and count != STALLED_AFTER:
            return
        stalled = waits or count >= STALLED_AFTER
        summary = Summary(
            Progress.FAILED if stalled else Progress.IN_PROGRESS,
            reason_of(error),
            steady_message(describe(error)),
        )
        ctx.recorder.event(owner, "Warning", summary.reason, summary.message, action="Reconcile")
        try:
            await self._write_status(ctx, owner, None, summary)
        except KubewrightError as inner:
            ctx.logger.debug("the failure is not in the status: %s", inner)
            if waits and remedy_of(inner) in (Remedy.RETRY, Remedy.REREAD):
                # Nothing else would bring the object back, and nobody would learn why.
                raise inner from error

    async def _write_status(
        self, ctx: Context, owner: Object, value: StatusValue, summary: Summary
    ) -> Object | None:
        if self._managed.is_plain:
            if not value:
                return None
            status = dump_status(value)
        else:
            now = ctx.clock.now()
            status = build_status(owner, value, summary, manager=self._operator, now=now)
        return await ensure_status(ctx, owner, status, manager=self._operator)

    def _forget(self, key: NamespacedName) -> None:
        self._failures.pop(key, None)
        self._accepted.pop(key, None)
        self._blocked.pop(key, None)
        self._settled.pop(key, None)
        self._memory.forget(self._uids.pop(key, ""))


def _find_waiting(steps: list[Step]) -> list[Step]:
    """Return the steps of a plan that are for a later reconcile."""
    later = (Action.AWAIT_KIND, Action.HOLD, Action.WAIT)
    return [step for step in steps if step.action in later]


def _tell_of_missing(ctx: Context, owner: Object, summary: Summary) -> None:
    """Record an Event when an object begins to lack a kind; its condition says so meanwhile."""
    before = find_condition((owner.get("status") or {}).get("conditions") or (), READY)
    if summary.reason != KIND_NOT_INSTALLED:
        return
    if before is None or before.get("reason") != KIND_NOT_INSTALLED:
        ctx.recorder.event(owner, "Warning", summary.reason, summary.message, action="Reconcile")


def _note_plan(ctx: Context, desired: ChildMap, steps: list[Step]) -> None:
    """Note what an object wants and what is to be done for it, if anybody wants to know."""
    if ctx.attempt is not None and ctx.attempt.detailed:
        wanted = (f"{gvk.kind} {key}" for gvk, key in desired)
        ctx.attempt.note_plan(wanted, map(str, steps))


def reason_of(error: BaseException) -> str:
    """Return the word for programs: the API's reason, or the class of the deepest cause."""
    for leaf in leaves(error):
        if isinstance(leaf, Refused):
            return leaf.reason
        cause = deepest_cause(leaf)
        if isinstance(cause, APIError) and cause.reason:
            return condition_reason(cause.reason)
        return condition_reason(type(cause).__name__)
    return "Failed"
