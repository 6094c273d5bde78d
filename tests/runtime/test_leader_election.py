"""Of several managers one works; another begins only when the first can write no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError, Forbidden, known_causes
from kubewright.api.resource import NamespacedName, Object
from kubewright.client.client import Client
from kubewright.client.credentials import Credential, StaticCredentials
from kubewright.client.http_transport import HTTPTransport
from kubewright.client.requests import PatchType
from kubewright.client.transport import NO_HEADERS, Query, Response, Transport
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.leader_election import (
    Candidacy,
    LeaderElection,
    LeaderElector,
    LeadershipLost,
    build_lease,
    build_released,
    holder_of,
)
from kubewright.runtime.manager import Manager
from kubewright.runtime.observer import NoObserver
from tests.runtime.conftest import FastClock, eventually
from tests.runtime.recording import GappyTransport, RecordingTransport

NOW = datetime(2026, 11, 28, tzinfo=UTC)
LATER = NOW + timedelta(seconds=2)


def election(identity: str, namespace: str = "default") -> LeaderElection:
    return LeaderElection("operator", namespace, identity=identity)


class Replica:
    """One of several processes: a manager whose controller writes for as long as it runs."""

    def __init__(self, transport: Transport, namespace: str, name: str, speed: float) -> None:
        self.name = name
        self.connection = GappyTransport(transport)
        self.recording = RecordingTransport(self.connection)
        self.clock = FastClock(speed)
        self.manager = Manager(
            Client(self.recording, clock=self.clock),
            namespaces=[namespace],
            clock=self.clock,
            # The reconcile never ends by itself, and a stop would wait for it.
            grace_period=timedelta(),
            leader_election=election(name, namespace),
        )
        self.manager.add(Controller(name, builtin.SECRET, self._reconcile, workers=1))
        self.task: asyncio.Task[None] | None = None

    async def _reconcile(self, key: NamespacedName, ctx: Context) -> None:
        for count in range(10**6):
            await ctx.patch(builtin.SECRET, key, {"stringData": {"n": f"{self.name} {count}"}})
            await asyncio.sleep(0.002)

    @property
    def writes(self) -> int:
        return sum("/secrets/" in write.path for write in self.recording.writes)

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.manager.run())
        return self.task

    async def works(self) -> bool:
        return self.writes > 2

    async def is_ready(self) -> bool:
        return self.manager.is_ready

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))


Replicas = Callable[..., AbstractAsyncContextManager[list[Replica]]]


@pytest.fixture
def replicas(transport: RecordingTransport, client: Client, namespace: str) -> Replicas:
    """Make two replicas on one server; what runs ends with the block."""

    @asynccontextmanager
    async def make(speed: float = 1) -> AsyncIterator[list[Replica]]:
        body = {"metadata": {"name": "target", "namespace": namespace}}
        await client.create({"apiVersion": "v1", "kind": "Secret", **body})
        both = [Replica(transport, namespace, name, speed) for name in ("first", "second")]
        try:
            yield both
        finally:
            for replica in both:
                await replica.stop()

    return make


async def read_lease(client: Client, namespace: str) -> Object:
    return await client.get(builtin.LEASE, "operator", namespace=namespace)


def test_the_first_holder_makes_no_transition() -> None:
    spec = build_lease(election("a"), None, NOW)["spec"]

    assert spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-28T00:00:00.000000Z",
        "renewTime": "2026-11-28T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_renewing_keeps_when_it_was_acquired_and_what_others_wrote() -> None:
    first = build_lease(election("a"), None, NOW)
    first["metadata"]["labels"] = {"team": "x"}

    renewed = build_lease(election("a"), first, LATER)

    assert renewed["metadata"]["labels"] == {"team": "x"}
    assert renewed["spec"]["acquireTime"] == first["spec"]["acquireTime"]
    assert renewed["spec"]["renewTime"] == "2026-11-28T00:00:02.000000Z"
    assert renewed["spec"]["leaseTransitions"] == 0


def test_a_new_holder_is_a_transition_also_after_a_release() -> None:
    released = build_released(build_lease(election("a"), None, NOW), LATER)

    taken = build_lease(election("b"), released, LATER)

    assert holder_of(released) == ""
    assert taken["spec"]["leaseTransitions"] == 1
    assert taken["spec"]["acquireTime"] == "2026-11-28T00:00:02.000000Z"
    assert taken["spec"]["leaseDurationSeconds"] == 15


@pytest.mark.parametrize("written", [NOW - timedelta(days=1), NOW + timedelta(days=1)])
def test_a_lease_expires_by_what_was_seen_and_not_by_its_own_time(written: datetime) -> None:
    candidacy = Candidacy(election("b"))
    lease = build_lease(election("a"), None, written)

    assert not candidacy.may_take(lease, 100.0)
    assert not candidacy.may_take(lease, 114.9)
    assert candidacy.may_take(lease, 115.0)


def test_a_renewal_begins_the_wait_anew() -> None:
    candidacy = Candidacy(election("b"))
    lease = build_lease(election("a"), None, NOW)
    candidacy.may_take(lease, 100.0)

    renewed = build_lease(election("a"), lease, LATER)

    assert not candidacy.may_take(renewed, 114.0)
    assert not candidacy.may_take(renewed, 128.9)
    assert candidacy.may_take(renewed, 129.0)


def test_the_holders_own_duration_counts() -> None:
    candidacy = Candidacy(election("b"))
    lease = build_lease(election("a"), None, NOW)
    lease["spec"]["leaseDurationSeconds"] = 60
    candidacy.may_take(lease, 0.0)

    assert not candidacy.may_take(lease, 59.0)
    assert candidacy.may_take(lease, 60.0)


def test_a_free_lease_and_its_own_are_taken_at_once() -> None:
    candidacy = Candidacy(election("a"))
    own = build_lease(election("a"), None, NOW)

    assert candidacy.may_take(own, 0.0)
    assert candidacy.may_take(build_released(own, NOW), 0.0)


def test_leads_for_the_renew_deadline_after_the_request_was_sent() -> None:
    candidacy = Candidacy(election("a"))
    assert candidacy.remaining(0.0) == 0

    candidacy.won(100.0)

    assert candidacy.remaining(103.0) == 7.0
    assert candidacy.remaining(110.0) == 0
    candidacy.resign()
    assert candidacy.remaining(103.0) == 0


def test_times_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be longer than the renew deadline"):
        LeaderElection("operator", "default", lease_duration=timedelta(seconds=10))


async def test_one_leads_and_the_other_keeps_warm(
    replicas: Replicas, client: Client, namespace: str
) -> None:
    async with replicas(speed=20) as (first, second):
        first.start()
        await eventually(first.works)
        second.start()
        await eventually(second.is_ready)
        await second.clock.sleep(40)

        assert second.writes == 0
        assert second.manager.cache.store(builtin.SECRET).get(NamespacedName(namespace, "target"))
        spec = (await read_lease(client, namespace))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("first", 0)


async def test_a_stop_hands_over_in_less_than_a_second(
    replicas: Replicas, client: Client, namespace: str
) -> None:
    async with replicas() as (first, second):
        first.start()
        await eventually(first.works)
        second.start()
        await eventually(second.is_ready)

        began = time.monotonic()
        await first.stop()
        last = first.writes
        await eventually(second.works)

        assert time.monotonic() - began < 1
        assert first.writes == last
        spec = (await read_lease(client, namespace))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_the_last_to_stop_leaves_a_free_lease(
    replicas: Replicas, client: Client, namespace: str
) -> None:
    async with replicas(speed=20) as (first, _):
        first.start()
        await eventually(first.works)
        await first.stop()

        assert holder_of(await read_lease(client, namespace)) == ""


async def test_a_leader_that_is_cut_off_stops_before_another_begins(
    replicas: Replicas, client: Client, namespace: str
) -> None:
    async with replicas(speed=10) as (first, second):
        ended = first.start()
        await eventually(first.works)
        second.start()
        await eventually(second.is_ready)

        first.connection.set_open(is_open=False)
        began = first.clock.monotonic()
        await asyncio.wait((ended,))
        assert second.writes == 0
        assert first.clock.monotonic() - began < 11
        first.connection.set_open(is_open=True)
        last = first.writes
        await eventually(second.works)

        assert first.writes == last
        error = ended.exception()
        assert isinstance(error, ExceptionGroup)
        (cause,) = known_causes(error)
        assert isinstance(cause, LeadershipLost)
        assert "was not renewed within 10 s: " in str(cause)
        assert not first.manager.is_ready
        assert holder_of(await read_lease(client, namespace)) == "second"


async def test_a_leader_that_finds_another_holder_ends(
    replicas: Replicas, client: Client, namespace: str
) -> None:
    async with replicas(speed=20) as (first, _):
        ended = first.start()
        await eventually(first.works)
        body = {"spec": {"holderIdentity": "usurper"}}
        await _patch_lease(client, namespace, body)
        await asyncio.wait((ended,), timeout=5)

        error = ended.exception()
        assert isinstance(error, ExceptionGroup)
        assert "was taken by usurper" in str(known_causes(error)[0])
        assert holder_of(await read_lease(client, namespace)) == "usurper"


async def _patch_lease(client: Client, namespace: str, body: Object) -> None:
    await client.patch(builtin.LEASE, "operator", body, type=PatchType.MERGE, namespace=namespace)


class JumpingClock(FastClock):
    """A clock that a frozen process finds advanced when it goes on."""

    def __init__(self) -> None:
        super().__init__(1)
        self.offset = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.offset


async def test_a_process_that_was_frozen_past_its_lease_writes_nothing(
    transport: RecordingTransport, namespace: str
) -> None:
    clock = JumpingClock()
    client = Client(transport, clock=clock)
    elector = LeaderElector(
        client,
        election("a", namespace),
        clock=clock,
        random=Random(0),
        observer=NoObserver(),
    )
    fenced = elector.fence(client)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace}}
    outcome: list[object] = []

    async def lead() -> None:
        await fenced.create(secret | {"metadata": {"name": "a", "namespace": namespace}})
        before = len(transport.writes)
        clock.offset = 10.0
        # No task has run since: nothing could be cancelled yet.
        with pytest.raises(LeadershipLost):
            await fenced.create(secret | {"metadata": {"name": "b", "namespace": namespace}})
        outcome.append(len(transport.writes) - before)
        outcome.append((await fenced.get(builtin.SECRET, "a", namespace=namespace))["kind"])

    await elector.run(lead)

    assert outcome == [0, "Secret"]


class SlowCredentials(StaticCredentials):
    """Credentials for which a request has to wait."""

    def __init__(self) -> None:
        super().__init__(token="t")
        self.asked, self.given = asyncio.Event(), asyncio.Event()

    async def current(self) -> Credential:
        self.asked.set()
        await self.given.wait()
        return await super().current()


async def test_a_write_that_had_to_wait_is_checked_again_when_it_is_sent(
    transport: RecordingTransport, namespace: str
) -> None:
    """The lease may end between the decision to write and the open connection."""
    received: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1))
        writer.close()

    clock, credentials = JumpingClock(), SlowCredentials()
    elector = LeaderElector(
        Client(transport, clock=clock),
        election("a", namespace),
        clock=clock,
        random=Random(0),
        observer=NoObserver(),
    )
    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = HTTPTransport(f"http://127.0.0.1:{port}", credentials=credentials)
    fenced = elector.fence(Client(connection, clock=clock))

    async def lead() -> None:
        metadata = {"name": "a", "namespace": namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        writing = asyncio.create_task(fenced.create(secret))
        await credentials.asked.wait()
        clock.offset = 10.0
        credentials.given.set()
        with pytest.raises(LeadershipLost):
            await writing

    await elector.run(lead)
    await connection.close()
    server.close()
    await server.wait_closed()
    assert received in ([], [b""])


class RefusingTransport(GappyTransport):
    """Refuse the first requests for leases, as a missing right does."""

    refusals = 3

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if "/leases" in path and self.refusals:
            self.refusals -= 1
            raise Forbidden("leases is forbidden")
        return await super().request(method, path, query=query, headers=headers, body=body)


async def test_a_right_that_comes_late_is_waited_for_and_told_once(
    transport: RecordingTransport, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FastClock(20)
    client = Client(RefusingTransport(transport), clock=clock)
    elector = LeaderElector(
        client, election("a", namespace), clock=clock, random=Random(0), observer=NoObserver()
    )

    async def lead() -> None:
        elector.check()

    await elector.run(lead)

    told = [record.getMessage() for record in caplog.records if "cannot write" in record.message]
    assert told == [f"cannot write the lease {namespace}/operator: leases is forbidden"]
