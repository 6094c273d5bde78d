"""Leader election by a Lease: of several replicas, one works and the others stand by.

`Candidacy` decides and never waits; `LeaderElector` asks the API server and the clock.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    KubewrightError,
    NotFound,
)
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import format_micro_time
from kubewright.client.client import Client
from kubewright.client.clock import Clock
from kubewright.client.objects import decode_object
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Stream,
    Transport,
    before_send,
)
from kubewright.runtime.alarm import Alarm
from kubewright.runtime.observer import Observer

_JITTER = 0.2
_READS = frozenset({"GET", "HEAD"})

_logger = logging.getLogger(__name__)


class LeadershipLost(KubewrightError):
    """This process no longer leads, or does not lead yet: what it would write is refused."""


def build_identity() -> str:
    """Build the name of this process among its replicas: the host, and what no other has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElection(msgspec.Struct, frozen=True):
    """Say which Lease decides who leads, and how fast.

    Arguments:
        name: the Lease; all replicas of an operator name the same one.
        namespace: where the Lease is.
        identity: the name of this process, unlike that of any other.
        lease_duration: how long others wait after the last renewal that they saw.
        renew_deadline: how long after its last renewal a leader goes on. What is left until
            `lease_duration` is the time to stop its work before another begins.
        retry_period: how often the Lease is renewed, or tried for.

    Raises:
        ConfigurationError: the times are not in the order lease > renew > retry.
    """

    name: str
    namespace: str
    identity: str = msgspec.field(default_factory=build_identity)
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        longest_pause = self.retry_period * (1 + _JITTER)
        if not self.lease_duration > self.renew_deadline > longest_pause > timedelta():
            raise ConfigurationError(
                f"leader election: the lease ({self.lease_duration}) must be longer than the "
                f"renew deadline ({self.renew_deadline}), and that longer than the retry period "
                f"({self.retry_period}) and a fifth of it"
            )

    @property
    def key(self) -> NamespacedName:
        """The key of the Lease."""
        return NamespacedName(self.namespace, self.name)


def build_lease(election: LeaderElection, old: Object | None, now: datetime) -> Object:
    """Build the Lease as its holder writes it: to acquire or to renew.

    What others keep in it stays. `leaseTransitions` counts changes of the holder, as client-go's
    does: the first holder makes none.
    """
    if old is None:
        metadata = {"name": election.name, "namespace": election.namespace}
        old = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    before = old.get("spec") or {}
    time = format_micro_time(now)
    spec = {
        **before,
        "holderIdentity": election.identity,
        "leaseDurationSeconds": math.ceil(election.lease_duration.total_seconds()),
        "renewTime": time,
    }
    if not before:
        spec |= {"acquireTime": time, "leaseTransitions": 0}
    elif before.get("holderIdentity") != election.identity:
        transitions = (before.get("leaseTransitions") or 0) + 1
        spec |= {"acquireTime": time, "leaseTransitions": transitions}
    return {**old, "spec": spec}


def build_released(lease: Object, now: datetime) -> Object:
    """Build the Lease without a holder: whoever sees it may take it at once."""
    spec = {
        **lease["spec"],
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": format_micro_time(now),
    }
    return {**lease, "spec": spec}


def holder_of(lease: Object) -> str:
    """Return who holds a Lease; empty when it is free."""
    return (lease.get("spec") or {}).get("holderIdentity") or ""


class Candidacy:
    """Decide whether a Lease may be taken, and until when it is held. Pure: told the time.

    Times written by others are never compared with a clock: it may be wrong. What counts is how
    long a Lease was seen without a change, on the observer's own monotonic clock.
    """

    def __init__(self, election: LeaderElection) -> None:
        self._election = election
        self._seen: object = None
        self._seen_at = 0.0
        self._leads_until = -math.inf

    def may_take(self, lease: Object, now: float) -> bool:
        """Tell whether a Lease that was just read is free, expired, or held by this process."""
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        if holder_of(lease) in ("", self._election.identity):
            return True
        own = self._election.lease_duration.total_seconds()
        return now - self._seen_at >= (spec.get("leaseDurationSeconds") or own)

    def won(self, sent: float) -> None:
        """Lead from now on: a Lease that was written with this process as its holder.

        `sent` is the time before the request was sent. No other can have seen it earlier.
        """
        self._leads_until = sent + self._election.renew_deadline.total_seconds()

    def resign(self) -> None:
        """Lead no longer."""
        self._leads_until = -math.inf

    def remaining(self, now: float) -> float:
        """Return for how many seconds this process leads if it does not renew; 0 if it does not."""
        return max(self._leads_until - now, 0.0)


class LeaderElector:
    """Acquire a Lease, lead while it is renewed, release it at the end.

    Guarantees, as long as the monotonic clocks of the replicas run about equally fast: work is
    cancelled `renew_deadline` after the last renewal was sent, and no other begins before
    `lease_duration` after it. Writes through a fenced client are refused from the same moment on,
    even when nothing could be cancelled because the process was frozen.
    """

    def __init__(
        self,
        client: Client,
        election: LeaderElection,
        *,
        clock: Clock,
        random: Random,
        observer: Observer,
    ) -> None:
        self.election = election
        self._client = client
        self._clock = clock
        self._random = random
        self._observer = observer
        self._candidacy = Candidacy(election)
        self._lease: Object | None = None
        self._wake = Alarm(clock)
        self._told = ""

    @property
    def is_leading(self) -> bool:
        """Whether this process leads at this moment."""
        return self._candidacy.remaining(self._clock.monotonic()) > 0

    def fence(self, client: Client) -> Client:
        """Return a client like this one that writes only while this process leads."""
        fenced = copy.copy(client)
        fenced.transport = FencedTransport(client.transport, self)
        return fenced

    def check(self) -> None:
        """Refuse what only a leader may do.

        Raises:
            LeadershipLost: this process does not lead.
        """
        if not self.is_leading:
            raise LeadershipLost(f"the lease {self.election.key} is not held by this process")

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the leadership, then run `lead`; release the Lease when that ends.

        While `lead` ends after a cancellation, the Lease is still renewed.

        Raises:
            ExceptionGroup: of LeadershipLost when the Lease was not renewed in time or has
                another holder; `lead` was cancelled before. Or of what `lead` raised.
        """
        self._observer.leading(self.election.name, is_leading=False)
        await self._acquire()
        self._observer.leading(self.election.name, is_leading=True)
        _logger.info("leading: acquired the lease %s", self.election.key)
        try:
            await self._hold(lead)
        finally:
            self._observer.leading(self.election.name, is_leading=False)
            if self.is_leading:
                await self._release()

    async def _acquire(self) -> None:
        _logger.info("standing by for the lease %s", self.election.key)
        watching = asyncio.create_task(self._watch_release())
        try:
            while not await self._try():
                await self._wake.wait(self._pause())
        finally:
            watching.cancel()
            await asyncio.wait((watching,))

    async def _hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            duties = [group.create_task(self._renew()), group.create_task(self._guard())]
            try:
                await lead()
            finally:
                for duty in duties:
                    duty.cancel()

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._pause())
            await self._try()
            if self._lease is not None and holder_of(self._lease) != self.election.identity:
                self._candidacy.resign()
                raise LeadershipLost(
                    f"the lease {self.election.key} was taken by {holder_of(self._lease) or '?'}"
                )

    async def _guard(self) -> None:
        while remaining := self._candidacy.remaining(self._clock.monotonic()):
            await self._clock.sleep(remaining)
        raise LeadershipLost(
            f"the lease {self.election.key} was not renewed within "
            f"{self.election.renew_deadline.total_seconds():g} s: {self._told or 'no answer came'}"
        )

    def _pause(self) -> float:
        spread = 1 + _JITTER * self._random.random()
        return self.election.retry_period.total_seconds() * spread

    async def _try(self) -> bool:
        """Acquire or renew once, in half the renew deadline; tell whether it worked."""
        try:
            won = await self._bound(self._write_lease())
        except (Conflict, AlreadyExists):
            # Somebody else was faster: the next attempt reads what they wrote.
            self._lease = None
        except KubewrightError as error:
            self._tell(str(error))
        else:
            self._told = ""
            return won
        return False

    async def _bound(self, attempt: Coroutine[Any, Any, bool]) -> bool:
        """Give up an attempt whose answer does not come: a later one may still be in time."""
        seconds = self.election.renew_deadline.total_seconds() / 2
        racers = (
            asyncio.ensure_future(attempt),
            asyncio.ensure_future(self._clock.sleep(seconds)),
        )
        try:
            await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
            if racers[0].done():
                return racers[0].result()
            self._lease = None
            self._tell(f"no answer came in {seconds:g} s")
            return False
        finally:
            for racer in racers:
                racer.cancel()
            await asyncio.wait(racers)

    async def _write_lease(self) -> bool:
        # A leader knows what it wrote last and need not read it; a conflict tells when that is old.
        if self._lease is None or not self.is_leading:
            if self.is_leading:
                self._observer.renewed_slowly(self.election.name)
            self._lease = await self._read()
        lease = self._lease
        if lease is not None and not self._candidacy.may_take(lease, self._clock.monotonic()):
            return False
        wanted = build_lease(self.election, lease, self._clock.now())
        sent = self._clock.monotonic()
        try:
            self._lease = await (
                self._client.create(wanted) if lease is None else self._client.replace(wanted)
            )
        except KubewrightError:
            # It may have been written all the same: read before the next attempt.
            self._lease = None
            raise
        self._candidacy.won(sent)
        return True

    async def _read(self) -> Object | None:
        key = self.election.key
        try:
            return await self._client.get(builtin.LEASE, key.name, namespace=key.namespace)
        except NotFound:
            return None

    async def _release(self) -> None:
        """Leave the Lease to others; where that fails, they wait until it expires."""
        self._candidacy.resign()
        try:
            await self._bound(self._empty_lease())
        except KubewrightError as error:
            _logger.warning("the lease %s was not released: %s", self.election.key, error)

    async def _empty_lease(self) -> bool:
        # An interrupted renewal may have changed it: what counts is what the server has.
        lease = await self._read()
        if lease is None or holder_of(lease) != self.election.identity:
            return False
        await self._client.replace(build_released(lease, self._clock.now()))
        _logger.info("released the lease %s", self.election.key)
        return True

    async def _watch_release(self) -> None:
        """Wake the candidate when the Lease becomes free, sooner than its next attempt.

        Where watching is not allowed, attempts every `retry_period` remain.
        """
        name, namespace = self.election.name, self.election.namespace
        while True:
            try:
                async with self._client.watch(
                    builtin.LEASE, namespace=namespace, fields={"metadata.name": name}
                ) as events:
                    async for event in events:
                        if event.type == "DELETED" or not holder_of(decode_object(event.raw)):
                            self._wake.set()
            except KubewrightError as error:
                _logger.debug("cannot watch the lease %s: %s", self.election.key, error)
            await self._clock.sleep(self._pause())

    def _tell(self, text: str) -> None:
        if text != self._told:
            _logger.warning("cannot write the lease %s: %s", self.election.key, text)
        self._told = text


class FencedTransport(PassingTransport):
    """Pass reads on, and writes only while the process leads.

    The check is the last thing before a request is handed to the kernel, also where a connection
    had to be opened first. So it stops a process that was frozen past its lease, or whose loop was
    blocked, and that goes on in the middle of its work.

    What was handed to the kernel before cannot be taken back: one request for each worker at most.
    The network and the server may bring it late, by no more than the server's own time limit for a
    request (60 s). It does no harm where it says what it was meant for: statuses, deletions and
    changes of children carry the UID of their object, `replace` its resource version.
    """

    def __init__(self, inner: Transport, elector: LeaderElector) -> None:
        super().__init__(inner)
        self._elector = elector

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request.

        Raises:
            LeadershipLost: it is a write, and this process does not lead.
        """
        if method in _READS:
            return await self._inner.request(method, path, query=query, headers=headers, body=body)
        self._elector.check()
        token = before_send.set(self._elector.check)
        try:
            return await self._inner.request(method, path, query=query, headers=headers, body=body)
        finally:
            before_send.reset(token)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a stream.

        Raises:
            LeadershipLost: it is a write, and this process does not lead.
        """
        if method not in _READS:
            self._elector.check()
        return self._inner.stream(method, path, query=query, headers=headers, body=body)
