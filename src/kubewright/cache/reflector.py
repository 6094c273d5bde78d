"""Reflectors: each keeps one scope of a store equal to what the API server has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TypeAlias

import msgspec

from kubewright.api.errors import (
    APIError,
    Expired,
    Gone,
    KubewrightError,
    NotFound,
    ServiceUnavailable,
    TransportError,
)
from kubewright.api.resource import Object
from kubewright.cache.backoff import Backoff
from kubewright.cache.resource_version import is_newer, is_seen
from kubewright.cache.store import Store
from kubewright.client.client import PAGE_SIZE, Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.objects import RawObject, decode_object
from kubewright.client.requests import Selector, build_selector
from kubewright.client.watch import MalformedEvent, WatchEvent

logger = logging.getLogger(__name__)

# The server closes a watch after a time drawn from this range, so that watches opened together do
# not come back together.
_WATCH_SECONDS = (300.0, 600.0)
# A watch that ends earlier, without a word, is a broken server rather than a closed stream.
_SHORTEST_WATCH_SECONDS = 1.0
# A watch that stood this long, even a silent one, ends an outage.
_STABLE_SECONDS = 10.0
# A server that ignores sendInitialEvents never ends them: silence this long tells.
_INITIAL_SILENCE_SECONDS = 30.0
_LONGEST_WAIT_SECONDS = 60
# Servers before WatchList refuse its parameters with one of these; other 4xx concern the list too.
_REFUSES_PARAMETERS = frozenset({400, 405, 422})
# Refusals that say nothing about the version that a watch began at.
_PASSING = frozenset({401, 403, 429, 503, 504})

Transform: TypeAlias = Callable[[Object], Object]
"""What a store keeps of an object: a pure function, called once for each state of it."""

_MISSING = "; the API server does not serve this kind: is its CRD installed?"


class WatchListUnsupported(KubewrightError):
    """The server takes `sendInitialEvents` for nothing, or not at all."""


class Reflector:
    """List a resource, then watch it from the list's version on, for ever.

    Flow: the first state comes as a stream of initial events (KEP-3157) where the server can, else
    as a list in pages. Then a watch with bookmarks follows. When the server closes it, a new one
    goes on at the last version seen. When that version has expired, or the watch cannot make
    progress, the state is read anew and replaces the store's content, so what vanished in between
    is told as DELETED.

    A watch from a version that the server has not reached yet stays silent and skips what happens
    until then, so a server that was restored from an older backup would be missed. After a broken
    connection the server is therefore asked first which version it is at, and read anew where that
    is an older one. Where it has written more since the backup than was lost, nobody can tell:
    that is why etcd's documentation asks for `--bump-revision` when it is restored.

    Guarantees: the store never skips a change without such a replacement. No answer of the server
    and no broken connection ends the reflector; it tries again after 0.8 s doubling to 30 s.

    Arguments:
        client: asks the server.
        store: what it feeds; `namespace` is the scope of it that it feeds.
        page_size: how many objects a page of a list has.
        watch_list: whether to try a stream of initial events.
        transform: what is kept of an object; see `Cache.store`.

    Attributes:
        failure: why the reflector is behind, None while it follows the server.
        failing_since: since when it is, in the clock's monotonic seconds; None while it follows,
            and where the store is optional and its kind is not served: it misses nothing then.
        last_contact: when the server last said something, in the clock's monotonic seconds.
        watches, failures, relists: how many watches were opened, how many lists and watches failed,
            and how often the state was read anew.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        *,
        namespace: str = "",
        labels: Selector | None = None,
        fields: Selector | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        page_size: int = PAGE_SIZE,
        watch_list: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self.store = store
        self.namespace = namespace
        self.failure: KubewrightError | None = None
        self.failing_since: float | None = None
        self.last_contact: float | None = None
        self.watches = self.failures = self.relists = 0
        self._client = client
        self._labels = build_selector(labels)
        self._fields = build_selector(fields)
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._page_size = page_size
        self._watch_list = watch_list
        self._transform = transform
        self._backoff = Backoff(self._random)
        # The version to go on from; None where the state must be read first.
        self._version: str | None = None
        # The server may have been replaced by an older self since it was last heard.
        self._is_in_doubt = False
        self._went_back = False
        self._opened_at: float | None = None

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        while True:
            try:
                if self._version is None and self._watch_list:
                    await self._follow_initial_events()
                elif self._version is None:
                    await self._list()
                else:
                    if self._is_in_doubt:
                        await self._check_version(self._version)
                    await self._watch(self._version)
            except WatchListUnsupported as unsupported:
                logger.info("%s: listing instead of streaming: %s", self, unsupported)
                self._watch_list = False
            except KubewrightError as error:
                await self._recover(error)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Nobody cancelled this reflector: something that it awaited was cancelled. To end
                # silently would leave a store that is never told of anything again.
                await self._recover(TransportError(f"the watch was cancelled inside: {error!r}"))

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"reflector of {self.store.resource}{where}"

    async def _recover(self, error: KubewrightError) -> None:
        """Decide what to go on with after a failure, and when."""
        now = self._clock.monotonic()
        if self._opened_at is not None and now - self._opened_at >= _STABLE_SECONDS:
            self._backoff.reset()
        delay = self._backoff.next(now)
        failures = self._backoff.failures
        self.failure = error
        self.failures += 1
        is_unserved = isinstance(error, NotFound)
        if is_unserved:
            self.store.note_unserved(scope=self.namespace)
        if is_unserved and self.store.optional:
            self.failing_since = None
        elif self.failing_since is None:
            self.failing_since = now
        if needs_relist(error, failures):
            self._version = None
        self._is_in_doubt |= isinstance(error, TransportError | ServiceUnavailable)
        if isinstance(error, Expired | Gone) and failures == 1:
            # Expiry is normal after a long gap; only one that repeats is a fault.
            delay = 0.0
        if isinstance(error, APIError):
            delay = max(delay, min(error.retry_after, _LONGEST_WAIT_SECONDS))
        log = logger.info if failures == 1 else logger.warning
        if is_unserved and self.store.optional and failures > 1:
            log = logger.debug
        hint = _MISSING if is_unserved else ""
        log("%s: trying again in %.1f s: %s%s", self, delay, error, hint)
        await self._clock.sleep(delay)

    async def _list(self) -> None:
        page = await self._client.list_raw(
            self.store.resource,
            namespace=self.namespace or None,
            labels=self._labels,
            fields=self._fields,
            limit=self._page_size,
        )
        await self._replace(page.items, page.resource_version)

    async def _check_version(self, version: str) -> None:
        """See whether the server still has the version to go on from.

        Raises:
            Expired: it is at an older one.
        """
        namespace = self.namespace or None
        current = await self._client.read_version(self.store.resource, namespace=namespace)
        self._is_in_doubt = False
        if is_newer(version, current):
            self._went_back = True
            raise Expired(f"the server went back from version {version} to {current}")

    async def _watch(self, version: str) -> None:
        """Follow the changes after a version until the server closes the watch."""
        began = self._clock.monotonic()
        count = 0
        async with self._open(version) as events:
            async for event in events:
                self._take(event)
                count += 1
        if not count and self._clock.monotonic() - began < _SHORTEST_WATCH_SECONDS:
            raise TransportError("the server closed the watch at once and without a word")
        self._backoff.reset()

    @asynccontextmanager
    async def _open(
        self, version: str | None, *, send_initial_events: bool = False
    ) -> AsyncGenerator[AsyncIterator[WatchEvent]]:
        self._opened_at = None
        async with self._client.watch(
            self.store.resource,
            namespace=self.namespace or None,
            labels=self._labels,
            fields=self._fields,
            resource_version=version or None,
            timeout=timedelta(seconds=self._random.uniform(*_WATCH_SECONDS)),
            send_initial_events=send_initial_events,
        ) as events:
            self._note_contact()
            self.watches += 1
            self._opened_at = self._clock.monotonic()
            yield events

    async def _follow_initial_events(self) -> None:
        """Read the present state from a watch, then follow it on."""
        try:
            async with self._open(None, send_initial_events=True) as events:
                items, end = await self._collect_initial(events)
                await self._replace(items, end.meta.resource_version)
                async for event in events:
                    self._take(event)
        except APIError as error:
            if error.code in _REFUSES_PARAMETERS and self._version is None:
                raise WatchListUnsupported(str(error)) from error
            raise

    async def _collect_initial(
        self, events: AsyncIterator[WatchEvent]
    ) -> tuple[list[RawObject], WatchEvent]:
        found: dict[tuple[str, str], RawObject] = {}
        try:
            async with asyncio.timeout(_INITIAL_SILENCE_SECONDS) as patience:
                async for event in events:
                    if event.is_initial_end:
                        return list(found.values()), event
                    if event.type == "DELETED":
                        found.pop(event.meta.key, None)
                    elif event.type != "BOOKMARK":
                        found[event.meta.key] = event.object
                    _renew(patience)
        except TimeoutError as error:
            raise WatchListUnsupported("the initial events have no end") from error
        raise WatchListUnsupported("the watch closed amid the initial events")

    async def _replace(self, items: Iterable[RawObject], version: str) -> None:
        self._note_contact()
        self.relists += 1
        kept = (self._shape(item) for item in items if self._is_usable(item))
        # In another past, a version that is known already may be of another state.
        trusted = not self._went_back
        for _ in self.store.replacing(kept, version, scope=self.namespace, trust_versions=trusted):
            # Many thousand objects take a second: probes and Leases must not wait for it.
            await asyncio.sleep(0)
        self._went_back = self._is_in_doubt = False
        self._version = version

    def _take(self, event: WatchEvent) -> None:
        """Bring one event into the store and remember how far the watch has come."""
        self._note_contact()
        self._backoff.reset()
        version = event.meta.resource_version
        if event.type == "BOOKMARK":
            self.store.observe(version, scope=self.namespace)
        elif self._is_usable(obj := event.object):
            change = self.store.remove if event.type == "DELETED" else self.store.put
            change(self._shape(obj), scope=self.namespace)
        if version and not is_seen(self._version or "", version):
            self._version = version

    def _is_usable(self, obj: RawObject) -> bool:
        """Report an object that cannot be decoded; one with a name is kept all the same."""
        if obj.error is not None:
            logger.error("%s: %s cannot be decoded: %s", self, obj.meta.key, obj.error)
        return bool(obj.meta.name)

    def _shape(self, obj: RawObject) -> RawObject:
        if self._transform is None:
            return obj
        try:
            shaped = self._transform(decode_object(obj.raw, self.store.resource))
            return obj._replace(raw=msgspec.json.encode(shaped))
        except Exception as error:
            logger.exception("%s: transforming %s failed; it is kept whole", self, obj.meta.key)
            return obj._replace(error=obj.error or f"transforming it failed: {error!r}")

    def _note_contact(self) -> None:
        self.failure = self.failing_since = None
        self.last_contact = self._clock.monotonic()


def _renew(patience: asyncio.Timeout) -> None:
    """Let the silence begin anew; a timer for each of many thousand events would cost too much."""
    deadline = asyncio.get_running_loop().time() + _INITIAL_SILENCE_SECONDS
    if deadline > (patience.when() or 0.0) + 1.0:
        patience.reschedule(deadline)


def needs_relist(error: KubewrightError, failures: int) -> bool:
    """Tell whether the state must be read anew after a watch failed, rather than followed on.

    A broken connection is resumed, however long the server was away: the server itself says with
    410 when the version is too old. `failures` counts this one and those before it in a row.
    """
    if isinstance(error, APIError):
        if error.code in _PASSING:
            return False
        return error.code < 500 or failures > 1
    return isinstance(error, MalformedEvent)
