"""Controllers: changes become keys, workers reconcile keys, errors decide when to come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from random import Random
from typing import TypeAlias

from kubewright.api.errors import Remedy
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import GroupVersionKind, NamespacedName, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.cache.store import Store
from kubewright.runtime.attempt import Attempt, Outcome, Trigger, Triggers, current_attempt
from kubewright.runtime.attempt_logger import AttemptLogger
from kubewright.runtime.context import Context, Environment
from kubewright.runtime.event_stream import EventStream, follow_stream
from kubewright.runtime.expectations import Expectations
from kubewright.runtime.failure import (
    describe,
    is_bug,
    is_cancellation,
    is_end_of_namespace,
    is_fault,
    is_passing,
    remedy_of,
    retry_after,
)
from kubewright.runtime.queue import MAX_DELAY, Priority, WorkQueue
from kubewright.runtime.read import Readable, resolve_reads
from kubewright.runtime.result import Result
from kubewright.runtime.user_function import is_timeout
from kubewright.runtime.watch import (
    ChangeFilter,
    Watch,
    changed_keys,
    is_any_change,
    is_same_intent,
    map_to_controller,
)

Reconcile: TypeAlias = Callable[[NamespacedName, Context], Awaitable[Result | None]]
"""What a controller calls with the key of an object; see `Controller` for how it says it failed."""
Stalled: TypeAlias = Callable[[NamespacedName, Context, BaseException], Awaitable[None]]

STALLED_AFTER = 10
QUIET_REREADS = 5
HOT_LOOP_AFTER = 50
_HOT_LOOP_PAUSE = 0.5
_WROTE = (
    "wrote in %d reconciles in a row without coming to rest: does what it writes depend on time or "
    "chance, or does another controller write the same fields?"
)
_AT_ONCE = (
    "%d reconciles in a row asked to be called again at once: does Result(after=…) reckon with a "
    "time that is past?"
)

_logger = logging.getLogger(__name__)


class Controller:
    """Call `reconcile` for every object of a kind that may need work, one worker per object.

    A key is reconciled when its object changes, when an object that it controls (`owns`, by
    ownerReference) changes, when a `watches` map says so, at start-up, and at every `resync`.
    `reads` names kinds that the reconcile reads from their stores without being woken by them; a
    `Read` holds a part of one.
    `setup` is called once with the cache, before anything is listed: the place for indexes.
    `changes` keeps out changes of the objects themselves that can never matter, such as those of
    their status; deletions always come through. `sources` are streams of keys from elsewhere.

    `reconcile` gets a key, not an object: it reads the present state, and may find it gone. It
    tells how it failed by what it raises:

    - Conflict, AlreadyExists, NotFound (`Remedy.REREAD`): tried again soon, without noise;
    - Invalid, TerminalError (`Remedy.WAIT_FOR_CHANGE`): not tried again until the object has
      another generation, label or annotation, or something that it owns or watches changes;
    - anything else: tried again after 5 ms doubling to 1000 s.

    An object that has failed ten times in a row is stalled: `stalled` is awaited once, and it is
    tried again every 1000 s, or sooner when it changes. What heals by itself, such as an API server
    that is away, goes on doubling: an outage of ten seconds must not cost a quarter of an hour.

    `workers` is how many objects are in work at once; a manager may say otherwise. `name` is the
    label of metrics and logs, and `field_manager` that of what its context applies.
    """

    def __init__(
        self,
        name: str,
        kind: Resource,
        reconcile: Reconcile,
        *,
        owns: Sequence[Resource] = (),
        watches: Sequence[Watch] = (),
        reads: Sequence[Readable] = (),
        workers: int = 4,
        setup: Callable[[Cache], None] | None = None,
        stalled: Stalled | None = None,
        resync: timedelta | None = timedelta(hours=10),
        field_manager: str | None = None,
        changes: ChangeFilter = is_any_change,
        sources: Sequence[EventStream] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self._reconcile = reconcile
        self._changes = changes
        self._sources = tuple(sources)
        self._watches = (
            # At a start every object of the kind itself is looked at: its children add no key.
            *(Watch(resource, map_to_controller(kind), is_start_known=True) for resource in owns),
            *watches,
        )
        self._held = resolve_reads(
            {kind, *owns}, tuple(reads), tuple(watch.resource for watch in watches)
        )
        self.workers = workers
        self._setup = setup
        self._stalled = stalled
        self._resync = resync
        self._field_manager = field_manager
        self._attached: _Attached | None = None

    def attach(self, environment: Environment) -> None:
        """Register stores and listeners; a manager calls it once, before its cache runs.

        Raises:
            RuntimeError: another manager has called it.
        """
        if self._attached is not None:
            raise RuntimeError(f"controller {self.name} was given to a manager already")
        cache = environment.cache
        stores = {resource: read.open(cache) for resource, read in self._held.items()}
        # A store that does not hold all of a kind may never see what was written.
        whole = [resource for resource, read in self._held.items() if not read.is_selective]
        seeing = {resource.gvk: stores[resource] for resource in whole}
        self._attached = _Attached(self.name, self.workers, environment, stores, seeing)
        if self._setup is not None:
            self._setup(cache)
        own = stores[self.kind]
        own.subscribe(partial(self._on_own_change, own))
        for store in stores.values():
            # What waited for the kind can go on; what counted on it must say that it cannot.
            store.subscribe_serving(partial(self._enqueue_all, "resync"))
        self._enqueue_all("start")
        for watch in self._watches:
            store = stores[watch.resource]
            store.subscribe(partial(self._on_change, store, watch))
            if watch.is_start_known:
                continue
            for entry in store.list():
                for key in watch.map(entry):
                    self._attached.note(key, "start")
                    self._attached.queue.add(key, Priority.LOW)

    @property
    def queue(self) -> WorkQueue[NamespacedName]:
        """The queue of keys to reconcile."""
        return self._state.queue

    def enqueue(self, key: NamespacedName, *, after: timedelta = timedelta()) -> None:
        """Ask for a reconcile of a key, at once or `after` a while, from outside any reconcile."""
        self._state.note(key, "asked")
        if after:
            self.queue.add_after(key, after.total_seconds())
        else:
            self.queue.add(key)

    async def run(self) -> None:
        """Work until `drain` or cancellation. The stores must be synced."""
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(self.queue.run())]
            if self._resync is not None:
                background.append(group.create_task(self._run_resync(self._resync)))
            background += [group.create_task(self._follow(source)) for source in self._sources]
            workers = [group.create_task(self._work()) for _ in range(self.workers)]
            await asyncio.gather(*workers)
            for task in background:
                task.cancel()

    async def drain(self) -> None:
        """Take no more keys, and wait until those in work are done."""
        self.queue.shut_down()
        await self.queue.drained()

    @property
    def _state(self) -> _Attached:
        if self._attached is None:
            raise RuntimeError(f"controller {self.name} has no manager: add it to one first")
        return self._attached

    def _on_own_change(self, store: Store, change: Change) -> None:
        entry = change.entry
        if change.type is ChangeType.DELETED or entry.meta.is_deleting:
            # Finalizers and what is kept in memory depend on it: no filter may keep it out.
            self._state.note_change(entry.key, self.kind, change, is_start=not store.synced)
            self.queue.add(entry.key, Priority.URGENT)
            return
        failed = self._state.failed.get(entry.key)
        if failed is not None and is_same_intent(failed, entry.meta):
            return
        # What arrives before the store is synced is start-up: it must not delay real changes.
        priority = Priority.HIGH if store.synced else Priority.LOW
        try:
            if self._changes(change):
                self._state.note_change(entry.key, self.kind, change, is_start=not store.synced)
                self.queue.add(entry.key, priority)
        except (Exception, asyncio.CancelledError):
            _logger.exception("%s: filtering a change of %s failed", self.name, entry.key)
            self.queue.add(entry.key, priority)

    def _on_change(self, store: Store, watch: Watch, change: Change) -> None:
        if watch.is_start_known and not store.synced:
            return
        priority = Priority.HIGH if store.synced else Priority.LOW
        try:
            if watch.changes(change):
                for key in changed_keys(watch.map, change):
                    self._state.note_change(key, watch.resource, change, is_start=not store.synced)
                    self.queue.add(key, priority)
        except (Exception, asyncio.CancelledError):
            # User code that fails to map a change must not lose it: everything is looked at.
            _logger.exception(
                "%s: mapping a change of %s %s failed; all objects are reconciled",
                self.name,
                watch.resource,
                change.entry.meta.key,
            )
            self._enqueue_all("asked")

    def _enqueue_all(self, cause: str) -> None:
        for entry in self._state.stores[self.kind].list():
            urgent = entry.meta.is_deleting
            self._state.note(entry.key, cause)
            self.queue.add(entry.key, Priority.URGENT if urgent else Priority.LOW)

    async def _run_resync(self, every: timedelta) -> None:
        environment = self._state.environment
        while True:
            spread = environment.random.uniform(0.9, 1.1)
            await environment.clock.sleep(every.total_seconds() * spread)
            self._enqueue_all("resync")

    async def _follow(self, source: EventStream) -> None:
        environment = self._state.environment
        await follow_stream(
            source,
            self.queue.add,
            # What the stream told while nobody listened is not known.
            lost=partial(self._enqueue_all, "resync"),
            clock=environment.clock,
            random=environment.random,
        )

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: NamespacedName) -> None:
        self._state.failed.pop(key, None)
        attempt = self._state.begin(key, self.kind)
        context = self._build_context(attempt)
        token = current_attempt.set(attempt)
        try:
            self._state.observer.began(attempt)
            attempt.outcome = await self._try(context, attempt)
            attempt.seconds = self._state.environment.clock.monotonic() - attempt.started
            self._state.observer.reconciled(attempt)
        finally:
            current_attempt.reset(token)
        self._slow_down(attempt, context)

    async def _try(self, context: Context, attempt: Attempt) -> Outcome:
        """Reconcile once, and decide when the key comes back."""
        key = attempt.key
        try:
            await self._settle(attempt)
            result = _checked(await self._reconcile(key, context))
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            # An exit is a failure of its object: one object must not end the work on all others.
            if is_cancellation(error):
                raise
            return await self._fail(attempt, context, error)
        self.queue.forget(key)
        self._state.told.pop(key, None)
        self._note_stalled(key, is_stalled=False)
        if result is None or result.after is None:
            return Outcome.SUCCESS
        attempt.retry_after = delay = max(result.after.total_seconds(), 0.0)
        self._state.note_timer(key)
        self.queue.add_after(key, delay, result.priority)
        return Outcome.REQUEUE_AFTER

    async def _settle(self, attempt: Attempt) -> None:
        """Wait until the stores have seen what the last reconcile of the key wrote."""
        expectations = self._state.expectations
        if not expectations.has_written(attempt.key):
            return
        attempt.settled = await expectations.settle(attempt.key)
        attempt.waited = self._state.environment.clock.monotonic() - attempt.started

    async def _fail(self, attempt: Attempt, context: Context, error: BaseException) -> Outcome:
        key, remedy, text = attempt.key, remedy_of(error), describe(error)
        attempt.failure = text
        self._ignore_own_news(key)
        attempt.is_bug, attempt.timed_out = is_bug(error), is_timeout(error)
        if remedy is Remedy.WAIT_FOR_CHANGE:
            self.queue.forget(key)
            ends = is_end_of_namespace(error)
            self._note_stalled(key, is_stalled=not ends)
            known = self._state.told.get(key) == text
            self._state.told[key] = text
            context.logger.log(
                logging.DEBUG if known or ends else logging.WARNING,
                "not tried again until something changes: %s",
                text,
                exc_info=error if is_fault(error) and not known else None,
            )
            return Outcome.SUCCESS if ends else Outcome.TERMINAL
        attempt.failures = failures = self.queue.failures(key) + 1
        at_least = retry_after(error)
        if failures >= STALLED_AFTER:
            self._note_stalled(key, is_stalled=True)
            if not is_passing(error):
                spread = self._state.environment.random.uniform(0.9, 1.0)
                at_least = max(at_least, MAX_DELAY * spread)
        attempt.retry_after = delay = self.queue.retry(key, at_least=at_least)
        self._tell(key, context, error, delay)
        if failures == STALLED_AFTER and self._stalled is not None:
            try:
                await self._stalled(key, context, error)
            except Exception as inner:
                context.logger.warning("cannot report that it is stalled: %s", describe(inner))
        return Outcome.REQUEUE if remedy is Remedy.REREAD else Outcome.ERROR

    def _ignore_own_news(self, key: NamespacedName) -> None:
        """Let no change wake a failed key that says nothing new, such as that of its own status.

        It would cut every back-off short, and wake for ever what waits for a change.
        """
        entry = self._state.stores[self.kind].get(key)
        if entry is not None:
            self._state.failed[key] = entry.meta

    def _note_stalled(self, key: NamespacedName, *, is_stalled: bool) -> None:
        stalled = self._state.stuck
        if is_stalled is not (key in stalled):
            (stalled.add if is_stalled else stalled.discard)(key)
            self._state.observer.stalled(len(stalled))

    def _slow_down(self, attempt: Attempt, context: Context) -> None:
        """Hold back a key whose reconciles cause each other: each one writes and so wakes the next,
        or asks to be called again at once.

        It is still worked on, but no longer as fast as the server answers.
        """
        key, restless = attempt.key, self._state.restless
        wrote = self._state.expectations.has_written(key)
        if not wrote and (attempt.outcome is not Outcome.REQUEUE_AFTER or attempt.retry_after):
            restless.pop(key, None)
            return
        restless[key] = restless.get(key, 0) + 1
        if restless[key] < HOT_LOOP_AFTER:
            return
        self.queue.hold(key, _HOT_LOOP_PAUSE)
        if restless[key] % HOT_LOOP_AFTER == 0:
            context.logger.warning(_WROTE if wrote else _AT_ONCE, restless[key])

    def _tell(
        self, key: NamespacedName, context: Context, error: BaseException, delay: float
    ) -> None:
        """Log a failure: races in silence, new faults of a program with a traceback."""
        text = describe(error)
        rereads = remedy_of(error) is Remedy.REREAD
        if rereads and self.queue.failures(key) <= QUIET_REREADS:
            context.logger.debug("tried again in %.3f s: %s", delay, text)
            return
        known = self._state.told.get(key) == text
        self._state.told[key] = text
        context.logger.warning(
            "failed %d times in a row, tried again in %.3f s: %s",
            self.queue.failures(key),
            delay,
            text,
            exc_info=error if is_fault(error) and not known else None,
        )

    def _build_context(self, attempt: Attempt) -> Context:
        state, environment = self._state, self._state.environment
        return Context(
            client=environment.client,
            cache=environment.cache,
            request=attempt.key,
            logger=AttemptLogger(state.logger, attempt),
            recorder=state.recorder,
            clock=environment.clock,
            random=environment.random,
            stores=state.stores,
            expectations=state.expectations,
            field_manager=self._field_manager,
            attempt=attempt,
        )


def _checked(result: Result | None) -> Result | None:
    """Return a result.

    Raises:
        TypeError: the reconcile returned something else, as only a type checker would have told.
    """
    if result is not None and not isinstance(result, Result):
        raise TypeError(f"reconcile returned {result!r}: return a Result or None")
    return result


class _Attached:
    """What a controller has once a manager runs it."""

    def __init__(
        self,
        name: str,
        workers: int,
        environment: Environment,
        stores: dict[Resource, Store],
        seeing: dict[GroupVersionKind, Store],
    ) -> None:
        self.name = name
        self.environment = environment
        self.stores = stores
        self.logger = logging.getLogger(f"kubewright.controller.{name}")
        self.observer = environment.observer.controller(name, workers)
        self.queue: WorkQueue[NamespacedName] = WorkQueue(
            environment.clock,
            environment.random,
            observer=self.observer,
            group=attrgetter("namespace"),
        )
        self.expectations = Expectations(environment.client, environment.clock, seeing)
        self.recorder = environment.broadcaster.recorder(name)
        self.told: dict[NamespacedName, str] = {}
        self.restless: dict[NamespacedName, int] = {}
        self.failed: dict[NamespacedName, ObjectMeta] = {}
        self.stuck: set[NamespacedName] = set()
        self._triggers = Triggers() if environment.observer.detailed else None
        self._named_stores = [
            (resource.group_resource, store) for resource, store in stores.items()
        ]
        # Of their own, so that whether an ID is asked for changes nothing else that is random.
        self._ids = Random(environment.random.getrandbits(64))

    def note(self, key: NamespacedName, cause: str) -> None:
        """Remember what woke a key, if anybody wants to know."""
        if self._triggers is not None:
            self._triggers.note(key, Trigger(cause))

    def note_timer(self, key: NamespacedName) -> None:
        """Remember that a reconcile asked to be called again, if anybody wants to know."""
        if self._triggers is not None:
            self._triggers.note_timer(key)

    def note_change(
        self, key: NamespacedName, resource: Resource, change: Change, *, is_start: bool
    ) -> None:
        """Remember the change that woke a key, if anybody wants to know."""
        if self._triggers is not None:
            meta = change.entry.meta
            cause = "start" if is_start else change.type.value
            trigger = Trigger(cause, resource, meta.key, meta.resource_version)
            self._triggers.note(key, trigger)

    def begin(self, key: NamespacedName, kind: Resource) -> Attempt:
        """Begin a reconcile of a key."""
        now = self.environment.clock.monotonic()
        attempt = Attempt(self.name, kind, key, started=now, ids=self._ids)
        if self._triggers is not None:
            attempt.detailed = True
            has_failed = bool(self.queue.failures(key))
            attempt.triggers = self._triggers.take(key, has_failed=has_failed)
            entry = self.stores[kind].get(key)
            attempt.versions = (
                (f"{kind.kind} {key}", entry.meta.resource_version if entry else ""),
                *[(name, store.resource_version) for name, store in self._named_stores],
            )
        return attempt
