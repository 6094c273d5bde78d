from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.errors import ConfigurationError, TransportError
from kubewright.cache import Change, Reflector, Store
from kubewright.cache.backoff import Backoff
from kubewright.client import Client, Response
from tests.client.scripted_transport import (
    FakeClock,
    Script,
    ScriptedTransport,
    event,
    failure,
    listing,
    pod,
    status_object,
)


class Run:
    """A reflector that has met all of a script."""

    def __init__(self, *replies: Response | Script | Exception, watch_list: bool = False) -> None:
        self.transport = ScriptedTransport.of(*replies)
        self.clock = self.transport.clock = FakeClock()
        self.store = Store(builtin.POD, clock=self.clock)
        self.changes: list[Change] = []
        self.store.subscribe(self.changes.append)
        client = Client(self.transport, clock=self.clock)
        self.reflector = Reflector(
            client, self.store, clock=self.clock, random=Random(1), watch_list=watch_list
        )

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self.reflector.run())
        try:
            await asyncio.wait_for(self.transport.exhausted.wait(), 5)
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def finish(self) -> Run:
        async with self.started():
            return self

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [
            (c.type.value, c.entry.key.name, c.entry.meta.resource_version) for c in self.changes
        ]

    @property
    def asked(self) -> list[str]:
        """Return what each request was: a list, a check of the version, or a watch from one."""
        return [
            f"watch {call.query.get('resourceVersion', 'initial')}"
            if "watch" in call.query
            else "check"
            if call.query.get("limit") == "1"
            else "list"
            for call in self.transport.calls
        ]


def bookmark(version: int, **metadata: Any) -> bytes:
    obj = {"kind": "Pod", "metadata": {"resourceVersion": str(version), **metadata}}
    return event("BOOKMARK", obj)


INITIAL_END = {"annotations": {"k8s.io/initial-events-end": "true"}}


async def test_watches_from_the_version_of_its_list() -> None:
    run = await Run(
        listing(10, pod("a", 3)),
        Script([event("MODIFIED", pod("a", 11)), event("ADDED", pod("b", 12))]),
    ).finish()
    assert run.asked == ["list", "watch 10", "watch 12"]
    assert run.told == [("ADDED", "a", "3"), ("MODIFIED", "a", "11"), ("ADDED", "b", "12")]
    assert run.transport.calls[0].query == {"limit": "500"}


async def test_goes_on_at_the_version_of_a_bookmark_after_a_clean_close() -> None:
    run = await Run(
        listing(10),
        Script([event("ADDED", pod("a", 11)), event("DELETED", pod("a", 12)), bookmark(50)]),
    ).finish()
    assert run.asked == ["list", "watch 10", "watch 50"]
    assert run.store.resource_version == "50"
    assert run.clock.sleeps == []


@pytest.mark.parametrize(
    "expiry",
    [
        failure(410, "Expired"),
        failure(410, "Gone"),
        Script([event("ERROR", status_object(410, "Expired"))]),
    ],
)
async def test_lists_anew_at_once_when_its_version_has_expired(expiry: Response | Script) -> None:
    run = await Run(
        listing(10, pod("a", 3), pod("b", 4)), expiry, listing(60, pod("b", 55))
    ).finish()
    assert run.asked == ["list", "watch 10", "list", "watch 60"]
    assert run.told[2:] == [("DELETED", "a", "3"), ("MODIFIED", "b", "55")]
    assert run.clock.sleeps == [0.0]


async def test_goes_on_after_an_abort_amid_an_event() -> None:
    broken = Script(
        [event("ADDED", pod("a", 11)), b'{"type":"ADDED","obj'], TransportError("reset")
    )
    after = Script([event("ADDED", pod("b", 12))])
    run = await Run(listing(10), broken, listing(12), after).finish()
    assert run.asked == ["list", "watch 10", "check", "watch 11", "watch 12"]
    assert run.told == [("ADDED", "a", "11"), ("ADDED", "b", "12")]
    assert 0.8 <= run.clock.sleeps[0] <= 1.6


async def test_goes_on_at_its_version_after_any_outage() -> None:
    refused = TransportError("connection refused")
    run = await Run(listing(10, pod("a", 3)), *[refused] * 8).finish()
    assert run.asked == ["list", "watch 10", *["check"] * 8]
    assert run.clock.sleeps == sorted(run.clock.sleeps)[:8]
    assert run.clock.sleeps[-1] == 30.0
    assert all(d >= 0.8 * 2**n or d == 30.0 for n, d in enumerate(run.clock.sleeps))


@pytest.mark.parametrize("broken", [TransportError("reset"), failure(503, "ServiceUnavailable")])
async def test_reads_anew_what_a_restored_server_has(broken: Response | Exception) -> None:
    """The version of a lost future is given out again: it must not be taken for the same."""
    run = await Run(
        listing(10, pod("a", 9), pod("b", 10)),
        broken,
        listing(7, pod("a", 5)),
        listing(9, pod("a", 9, labels={"from": "the other past"})),
        Script([event("ADDED", pod("c", 10))]),
    ).finish()
    assert run.asked == ["list", "watch 10", "check", "list", "watch 9", "watch 10"]
    assert run.told[2:] == [("DELETED", "b", "10"), ("MODIFIED", "a", "9"), ("ADDED", "c", "10")]
    assert (run.store.list()[0].meta.labels, len(run.store)) == ({"from": "the other past"}, 2)


@pytest.mark.parametrize(
    "refusal",
    [
        failure(403, "Forbidden"),
        failure(401, "Unauthorized"),
        failure(500, "InternalError"),
        Response(502, {}, b"bad gateway"),
        ConfigurationError("the credential plugin failed"),
        TransportError("no route"),
    ],
)
async def test_survives_a_refused_list(refusal: Response | Exception) -> None:
    run = await Run(refusal, refusal, listing(10, pod("a", 3))).finish()
    assert run.asked == ["list", "list", "list", "watch 10"]
    assert len(run.clock.sleeps) == 2
    assert run.store.synced


@pytest.mark.parametrize("code", [500, 429, 403])
async def test_survives_an_error_event_and_goes_on(code: int) -> None:
    error = Script([event("ERROR", status_object(code, "", "etcd is away"))])
    run = await Run(listing(10), error, Script([event("ADDED", pod("a", 11))])).finish()
    assert run.asked == ["list", "watch 10", "watch 10", "watch 11"]
    assert len(run.clock.sleeps) == 1


async def test_lists_anew_when_a_watch_fails_twice_without_progress() -> None:
    error = Script([event("ERROR", status_object(500, "InternalError"))])
    run = await Run(listing(10), error, error, listing(20)).finish()
    assert run.asked == ["list", "watch 10", "watch 10", "list", "watch 20"]


async def test_lists_anew_after_what_is_no_event() -> None:
    run = await Run(listing(10), Script([b"<html>\n"]), listing(20, pod("a", 15))).finish()
    assert run.asked == ["list", "watch 10", "list", "watch 20"]


async def test_lists_anew_when_the_server_forgets_the_rest_of_a_list() -> None:
    run = await Run(
        listing(10, pod("a", 3), token="t"), failure(410, "Expired"), listing(20, pod("b", 15))
    ).finish()
    assert run.told == [("ADDED", "b", "15")]
    assert run.asked[-1] == "watch 20"


async def test_a_list_in_pages_becomes_one_state() -> None:
    run = await Run(listing(10, pod("a", 3), token="t"), listing(10, pod("b", 4))).finish()
    assert run.told == [("ADDED", "a", "3"), ("ADDED", "b", "4")]


async def test_a_server_that_closes_every_watch_at_once_is_not_hammered() -> None:
    replies: list[Response | Script] = [Script(), listing(10)]
    run = await Run(listing(10), *replies * 4).finish()
    assert len(run.clock.sleeps) == 4
    assert run.clock.sleeps[3] >= 6.4


async def test_a_version_that_expires_again_and_again_is_not_hammered() -> None:
    expired = failure(410, "Expired")
    run = await Run(listing(10), expired, listing(11), expired, listing(12), expired).finish()
    assert run.clock.sleeps[0] == 0.0
    assert run.clock.sleeps[1] >= 1.6


async def test_a_watch_that_stood_for_a_while_ends_an_outage() -> None:
    refused, reset = TransportError("connection refused"), TransportError("reset")
    run = await Run(
        listing(10), *[refused] * 4, listing(10), Script(error=reset, lasts=30)
    ).finish()
    assert run.clock.sleeps[3] >= 6.4
    assert run.clock.sleeps[4] <= 1.6


async def test_a_quiet_watch_that_the_server_closes_is_no_failure() -> None:
    run = await Run(listing(10), Script(lasts=300), Script(lasts=300)).finish()
    assert run.asked == ["list", "watch 10", "watch 10", "watch 10"]
    assert run.clock.sleeps == []


async def test_waits_as_long_as_the_server_asks() -> None:
    busy = status_object(429, "TooManyRequests")
    busy["details"] = {"retryAfterSeconds": 20}
    run = await Run(listing(10), Script([event("ERROR", busy)])).finish()
    assert run.clock.sleeps == [20]


async def test_an_unreadable_object_neither_ends_the_watch_nor_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = pod("odd", 11, finalizers="not a list")
    nameless = event("ADDED", {"kind": "Pod", "metadata": {"resourceVersion": "12", "name": 5}})
    with caplog.at_level(logging.ERROR):
        run = await Run(
            listing(10), Script([event("ADDED", odd), nameless, event("ADDED", pod("a", 13))])
        ).finish()
    assert run.told == [("ADDED", "odd", "11"), ("ADDED", "a", "13")]
    assert run.changes[0].entry.error is not None
    assert caplog.text.count("cannot be decoded") == 2


async def test_streams_the_first_state_where_the_server_can() -> None:
    run = Run(
        Script(
            [
                event("ADDED", pod("a", 3)),
                event("ADDED", pod("b", 4)),
                bookmark(10, **INITIAL_END),
                event("DELETED", pod("a", 11)),
            ]
        ),
        watch_list=True,
    )
    await run.finish()
    assert run.asked == ["watch initial", "watch 11"]
    assert run.transport.calls[0].query["sendInitialEvents"] == "true"
    assert run.transport.calls[0].query["resourceVersionMatch"] == "NotOlderThan"
    assert run.told == [("ADDED", "a", "3"), ("ADDED", "b", "4"), ("DELETED", "a", "11")]


async def test_a_broken_stream_of_the_first_state_changes_nothing() -> None:
    broken = Script([event("ADDED", pod("a", 3))], TransportError("reset"))
    whole = Script([event("ADDED", pod("b", 4)), bookmark(10, **INITIAL_END)], hangs=True)
    run = Run(broken, whole, watch_list=True)
    task = asyncio.create_task(run.reflector.run())
    await asyncio.wait_for(run.store.wait_synced(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.told == [("ADDED", "b", "4")]


@pytest.mark.parametrize(
    "unsupported",
    [
        failure(422, "Invalid", "sendInitialEvents is forbidden"),
        failure(400, "BadRequest"),
        Script([event("ADDED", pod("a", 3))]),
    ],
)
async def test_lists_where_the_server_cannot_stream_the_first_state(
    unsupported: Response | Script,
) -> None:
    run = Run(unsupported, listing(10, pod("a", 3)), failure(410, "Expired"), watch_list=True)
    await run.finish()
    assert run.asked == ["watch initial", "list", "watch 10", "list"]
    assert run.told == [("ADDED", "a", "3")]


async def test_a_refusal_that_lists_would_meet_too_does_not_end_streaming() -> None:
    end = Script([bookmark(10, **INITIAL_END)])
    run = Run(failure(403, "Forbidden"), failure(404, "NotFound"), end, watch_list=True)
    await run.finish()
    assert run.asked == ["watch initial"] * 3 + ["watch 10"]


async def test_a_cancellation_that_nobody_asked_for_does_not_end_it() -> None:
    """A library that cancels its own inner task must not leave the store deaf for ever."""
    run = Run(listing(10), listing(10), Script([event("ADDED", pod("a", 11))]))
    cancelled = 0
    stream = run.transport.stream

    def cancel_once(*args: Any, **kwargs: Any) -> Any:
        nonlocal cancelled
        cancelled += 1
        if cancelled == 1:
            raise asyncio.CancelledError("inside")
        return stream(*args, **kwargs)

    run.transport.stream = cancel_once  # type: ignore[method-assign]  # the fault
    await run.finish()
    assert run.told == [("ADDED", "a", "11")]
    assert len(run.clock.sleeps) == 1


async def test_tells_why_it_is_behind() -> None:
    run = Run(listing(10), failure(403, "Forbidden", "no right"))
    seen: list[BaseException | None] = []
    sleep: Callable[[float], Any] = run.clock.sleep

    async def look(seconds: float) -> None:
        seen.append(run.reflector.failure)
        await sleep(seconds)

    run.clock.sleep = look  # type: ignore[method-assign] # the moment of interest is inside it
    async with run.started():
        assert [str(failure) for failure in seen] == ["no right"]


def test_delays_begin_anew_after_a_quiet_time() -> None:
    backoff = Backoff(Random(1))
    assert [backoff.next(0.0) >= 0.8 * 2**n for n in range(5)] == [True] * 5
    assert backoff.next(121.0) <= 1.6
    assert all(backoff.next(121.0) <= 30.0 for _ in range(2000))


async def test_counts_what_it_does_and_since_when_it_fails() -> None:
    run = Run(listing(10), Script(lasts=20), TransportError("cut"), TransportError("cut"))
    async with run.started():
        await asyncio.sleep(0)

    reflector = run.reflector
    assert (reflector.relists, reflector.watches, reflector.failures) == (1, 1, 2)
    # The clock went on through the pauses after each failure.
    assert reflector.failing_since is not None
    assert reflector.failing_since < run.clock.monotonic()
