"""Controllers: changes become keys, workers reconcile keys, errors decide when to come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from kubewright.api.errors import Remedy
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import NamespacedName, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change, ChangeType
from kubewright.cache.store import Store
from kubewright.runtime.context import Context, Environment
from kubewright.runtime.event_stream import EventStream, follow_stream
from kubewright.runtime.expectations import Expectations
from kubewright.runtime.failure import (
    describe,
    is_end_of_namespace,
    is_fault,
    is_passing,
    remedy_of,
    retry_after,
)
from kubewright.runtime.observer import Outcome
from kubewright.runtime.queue import MAX_DELAY, Priority, WorkQueue
from kubewright.runtime.result import Result
from kubewright.runtime.watch import (
    ChangeFilter,
    Watch,
    changed_keys,
    is_any_change,
    is_same_intent,
    map_to_controller,
)

Reconcile: TypeAlias = Callable[[NamespacedName, Context], Awaitable[Result | None]]
Stalled: TypeAlias = Callable[[NamespacedName, Context, BaseException], Awaitable[None]]

STALLED_AFTER = 10
QUIET_REREADS = 5
HOT_LOOP_AFTER = 50
_HOT_LOOP_PAUSE = 0.5

_logger = logging.getLogger(__name__)


class Controller:
    """Call `reconcile` for every object of a kind that may need work, one worker per object.

    A key is reconciled when its object changes, when an object that it controls (`owns`, by
    ownerReference) changes, when a `watches` map says so, at start-up, and at every `resync`.
    `reads` names kinds that the reconcile reads from their stores without being woken by them.
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
    """

    def __init__(
        self,
        name: str,
        kind: Resource,
        reconcile: Reconcile,
        *,
        owns: Sequence[Resource] = (),
        watches: Sequence[Watch] = (),
        reads: Sequence[Resource] = (),
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
            *(Watch(resource, map_to_controller(kind)) for resource in owns),
            *watches,
        )
        self._reads = tuple(reads)
        self.workers = workers
        self._setup = setup
        self._stalled = stalled
        self._resync = resync
        self._field_manager = field_manager
        self._attached: _Attached | None = None

    def attach(self, environment: Environment) -> None:
        """Register stores and listeners; a manager calls it once, before its cache runs."""
        if self._attached is not None:
            raise RuntimeError(f"controller {self.name} was given to a manager already")
        cache = environment.cache
        watched = [self.kind, *(watch.resource for watch in self._watches)]
        stores = {resource: cache.store(resource) for resource in (*watched, *self._reads)}
        self._attached = _Attached(self.name, self.workers, environment, stores)
        if self._setup is not None:
            self._setup(cache)
        own = stores[self.kind]
        own.subscribe(partial(self._on_own_change, own))
        self._enqueue_all()
        for watch in self._watches:
            store = stores[watch.resource]
            store.subscribe(partial(self._on_change, store, watch))
            for entry in store.list():
                for key in watch.map(entry):
                    self._attached.queue.add(key, Priority.LOW)

    @property
    def queue(self) -> WorkQueue[NamespacedName]:
        """The queue of keys to reconcile."""
        return self._state.queue

    def enqueue(self, key: NamespacedName, *, after: timedelta = timedelta()) -> None:
        """Ask for a reconcile of a key, from outside any reconcile."""
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
            self.queue.add(entry.key, Priority.URGENT)
            return
        waiting = self._state.waiting
        if waiting and (failed := waiting.get(entry.key)) and is_same_intent(failed, entry.meta):
            return
        # What arrives before the store is synced is start-up: it must not delay real changes.
        priority = Priority.HIGH if store.synced else Priority.LOW
        try:
            if self._changes(change):
                self.queue.add(entry.key, priority)
        except (Exception, asyncio.CancelledError):
            _logger.exception("%s: filtering a change of %s failed", self.name, entry.key)
            self.queue.add(entry.key, priority)

    def _on_change(self, store: Store, watch: Watch, change: Change) -> None:
        priority = Priority.HIGH if store.synced else Priority.LOW
        try:
            if watch.changes(change):
                for key in changed_keys(watch.map, change):
                    self.queue.add(key, priority)
        except (Exception, asyncio.CancelledError):
            # User code that fails to map a change must not lose it: everything is looked at.
            _logger.exception(
                "%s: mapping a change of %s %s failed; all objects are reconciled",
                self.name,
                watch.resource,
                change.entry.meta.key,
            )
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        for entry in self._state.stores[self.kind].list():
            urgent = entry.meta.is_deleting
            self.queue.add(entry.key, Priority.URGENT if urgent else Priority.LOW)

    async def _run_resync(self, every: timedelta) -> None:
        environment = self._state.environment
        while True:
            spread = environment.random.uniform(0.9, 1.1)
            await environment.clock.sleep(every.total_seconds() * spread)
            self._enqueue_all()

    async def _follow(self, source: EventStream) -> None:
        environment = self._state.environment
        await follow_stream(
            source,
            self.queue.add,
            # What the stream told while nobody listened is not known.
            lost=self._enqueue_all,
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
        context = self._build_context(key)
        clock = self._state.environment.clock
        started = clock.monotonic()
        outcome = Outcome.SUCCESS
        if self._state.waiting:
            self._state.waiting.pop(key, None)
        try:
            await self._state.expectations.settle(key)
            result = _checked(await self._reconcile(key, context))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this worker: the reconcile awaited something that was cancelled.
            outcome = await self._fail(key, context, error)
        except Exception as error:
            outcome = await self._fail(key, context, error)
        else:
            self.queue.forget(key)
            self._state.told.pop(key, None)
            self._note_stalled(key, is_stalled=False)
            if result is not None and result.after is not None:
                self.queue.add_after(key, result.after.total_seconds(), result.priority)
                outcome = Outcome.REQUEUE_AFTER
        self._state.observer.reconciled(outcome, clock.monotonic() - started)
        self._slow_down(key, context)

    async def _fail(self, key: NamespacedName, context: Context, error: BaseException) -> Outcome:
        remedy = remedy_of(error)
        if remedy is Remedy.WAIT_FOR_CHANGE:
            self.queue.forget(key)
            self._wait_for_change(key)
            if is_end_of_namespace(error):
                self._note_stalled(key, is_stalled=False)
            else:
                self._note_stalled(key, is_stalled=True)
            text = describe(error)
            known = self._state.told.get(key) == text
            self._state.told[key] = text
            context.logger.log(
                logging.DEBUG if known or is_end_of_namespace(error) else logging.WARNING,
                "not tried again until something changes: %s",
                text,
                exc_info=error if is_fault(error) and not known else None,
            )
            return Outcome.SUCCESS if is_end_of_namespace(error) else Outcome.TERMINAL
        failures = self.queue.failures(key) + 1
        at_least = retry_after(error)
        if failures >= STALLED_AFTER:
            self._note_stalled(key, is_stalled=True)
            if not is_passing(error):
                spread = self._state.environment.random.uniform(0.9, 1.0)
                at_least = max(at_least, MAX_DELAY * spread)
        delay = self.queue.retry(key, at_least=at_least)
        self._tell(key, context, error, delay)
        if failures == STALLED_AFTER and self._stalled is not None:
            try:
                await self._stalled(key, context, error)
            except Exception as inner:
                context.logger.warning("cannot report that it is stalled: %s", describe(inner))
        return Outcome.REQUEUE if remedy is Remedy.REREAD else Outcome.ERROR

    def _wait_for_change(self, key: NamespacedName) -> None:
        """Let no change wake a key that says nothing new, such as that of its own status."""
        entry = self._state.stores[self.kind].get(key)
        if entry is not None:
            self._state.waiting[key] = entry.meta

    def _note_stalled(self, key: NamespacedName, *, is_stalled: bool) -> None:
        stalled = self._state.stuck
        if is_stalled is not (key in stalled):
            (stalled.add if is_stalled else stalled.discard)(key)
            self._state.observer.stalled(len(stalled))

    def _slow_down(self, key: NamespacedName, context: Context) -> None:
        """Hold back a key whose reconciles cause each other: each one writes and so wakes the next.

        It is still worked on, but no longer as fast as the server answers.
        """
        restless = self._state.restless
        if not self._state.expectations.has_written(key):
            restless.pop(key, None)
            return
        restless[key] = restless.get(key, 0) + 1
        if restless[key] < HOT_LOOP_AFTER:
            return
        self.queue.hold(key, _HOT_LOOP_PAUSE)
        if restless[key] % HOT_LOOP_AFTER == 0:
            context.logger.warning(
                "wrote in %d reconciles in a row without coming to rest: does what it writes "
                "depend on time or chance, or does another controller write the same fields?",
                restless[key],
            )

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

    def _build_context(self, key: NamespacedName) -> Context:
        state, environment = self._state, self._state.environment
        logger = logging.getLogger(f"kubewright.controller.{self.name}")
        return Context(
            client=environment.client,
            cache=environment.cache,
            request=key,
            logger=KeyLogger(logger, {"controller": self.name, "key": str(key)}),
            recorder=state.recorder,
            clock=environment.clock,
            random=environment.random,
            stores=state.stores,
            expectations=state.expectations,
            field_manager=self._field_manager,
        )


def _checked(result: Result | None) -> Result | None:
    """Return a result.

    Raises:
        TypeError: the reconcile returned something else, as only a type checker would have told.
    """
    if result is not None and not isinstance(result, Result):
        raise TypeError(f"reconcile returned {result!r}: return a Result or None")
    return result


class KeyLogger(logging.LoggerAdapter[logging.Logger]):
    """Put the controller and the key of the object before every message."""

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the prefix; the fields are in the record's `extra` too."""
        extra = dict(self.extra or {})
        kwargs["extra"] = {**extra, **(kwargs.get("extra") or {})}
        return f"{extra.get('controller')}: {extra.get('key')}: {msg}", kwargs


class _Attached:
    """What a controller has once a manager runs it."""

    def __init__(
        self, name: str, workers: int, environment: Environment, stores: dict[Resource, Store]
    ) -> None:
        self.environment = environment
        self.stores = stores
        self.observer = environment.observer.controller(name, workers)
        self.queue: WorkQueue[NamespacedName] = WorkQueue(
            environment.clock,
            environment.random,
            observer=self.observer,
            group=attrgetter("namespace"),
        )
        self.expectations = Expectations(
            environment.client,
            environment.clock,
            {resource.gvk: store for resource, store in stores.items()},
        )
        self.recorder = environment.broadcaster.recorder(name)
        self.told: dict[NamespacedName, str] = {}
        self.restless: dict[NamespacedName, int] = {}
        self.waiting: dict[NamespacedName, ObjectMeta] = {}
        self.stuck: set[NamespacedName] = set()
