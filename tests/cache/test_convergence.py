"""Whatever happens between a server and a reflector, the store ends up as the server is."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.cache import Change, ChangeType, Entry, Reflector, Store
from kubewright.client import Client
from tests.cache.faulty_server import FaultyServer, state_of
from tests.client.scripted_transport import FakeClock

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
_EVENTS = ["compact", "break", "close", "outage", "stutter", "back up", "restore"]
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.sampled_from(_EVENTS), st.just("")),
    st.tuples(st.just("run"), st.sampled_from(["1", "3", "10", "40"])),
)


class Mirror:
    """What a listener knows who only hears of changes, and checks that they fit together."""

    def __init__(self, store: Store) -> None:
        self.entries: dict[NamespacedName, Entry] = {}
        store.subscribe(self.hear)

    def hear(self, change: Change) -> None:
        known = self.entries.get(change.entry.key)
        assert change.old is known, f"{change} does not follow {known}"
        assert (change.type is ChangeType.ADDED) == (known is None)
        if change.type is ChangeType.DELETED:
            del self.entries[change.entry.key]
        else:
            self.entries[change.entry.key] = change.entry


async def let_run(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def perform(server: FaultyServer, step: tuple[str, str]) -> None:
    match step:
        case ("put", name):
            server.put(name)
        case ("delete", name):
            server.delete(name)
        case ("run", turns):
            await let_run(int(turns))
        case ("compact", _):
            server.compact()
        case ("break", _):
            server.break_watches()
        case ("close", _):
            server.close_watches()
        case ("back up", _):
            server.back_up()
        case ("restore", _):
            server.restore()
            # Before it has written more than was lost: else nobody could tell.
            await let_run(300)
        case ("outage", _):
            server.outage = 3
            server.break_watches()
        case _:
            server.stutter = 3


async def converge(server: FaultyServer, steps: list[tuple[str, str]], *, watch_list: bool) -> None:
    clock = FakeClock()
    store = Store(builtin.POD, clock=clock)
    mirror = Mirror(store)
    reflector = Reflector(
        Client(server, clock=clock),
        store,
        clock=clock,
        random=Random(1),
        page_size=2,
        watch_list=watch_list,
    )
    task = asyncio.create_task(reflector.run())
    try:
        for step in steps:
            await perform(server, step)
        # A last write shows that the reflector still follows, not that it stopped in time.
        server.put("last")
        await let_run(1_000)
    finally:
        task.cancel()
        await asyncio.wait((task,))
    expected = state_of([*server.pods.values()])
    assert state_of([entry.object() for entry in store.list()]) == expected
    assert state_of([entry.object() for entry in mirror.entries.values()]) == expected
    assert store.resource_version == str(server.revision)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(STEPS, max_size=30),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([7, 150, 1_000]),
)
def test_the_store_ends_up_as_the_server_is(
    steps: list[tuple[str, str]],
    watch_list: bool,
    has_watch_list: bool,
    expires_as_event: bool,
    cut: int,
) -> None:
    server = FaultyServer(has_watch_list=has_watch_list, expires_as_event=expires_as_event, cut=cut)
    asyncio.run(converge(server, steps, watch_list=watch_list))


def test_a_server_that_goes_back_in_time_is_followed() -> None:
    """After the backup `a` changes and `b` comes; restored, the versions name other states."""
    before = [("put", "a"), ("back up", ""), ("put", "a"), ("put", "b"), ("run", "40")]
    after = [("restore", ""), ("put", "a"), ("put", "c")]
    for watch_list in (False, True):
        server = FaultyServer(has_watch_list=watch_list)
        asyncio.run(converge(server, [*before, *after], watch_list=watch_list))


def test_deletions_in_a_gap_are_told() -> None:
    steps = [("put", "a"), ("put", "b"), ("run", "40"), ("outage", ""), ("delete", "a")]
    asyncio.run(converge(FaultyServer(), [*steps, ("compact", "")], watch_list=False))


def test_an_object_made_again_in_a_gap_is_another_one() -> None:
    steps = [("put", "a"), ("run", "40"), ("outage", ""), ("delete", "a"), ("put", "a")]
    asyncio.run(converge(FaultyServer(), [*steps, ("compact", "")], watch_list=False))
