"""A stream of keys from elsewhere is followed for ever, however it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.runtime.event_stream import EventStream, follow_stream
from tests.runtime.conftest import FastClock, eventually

A, B = NamespacedName("ns", "a"), NamespacedName("ns", "b")


class Followed:
    """Follow a stream that fails its first times; note what comes of it."""

    def __init__(self, *faults: BaseException | None) -> None:
        self.faults = list(faults)
        self.opened = self.lost = self.closed = 0
        self.keys: list[NamespacedName] = []

    async def open(self) -> AsyncIterator[NamespacedName]:
        self.opened += 1
        try:
            yield A if self.opened == 1 else B
            if self.faults:
                fault = self.faults.pop(0)
                if fault is not None:
                    raise fault
                return
            await asyncio.Event().wait()
        finally:
            self.closed += 1

    def on_lost(self) -> None:
        self.lost += 1

    def follow(self) -> asyncio.Task[None]:
        following = follow_stream(
            EventStream("queue", self.open),
            self.keys.append,
            lost=self.on_lost,
            clock=FastClock(1000),
            random=Random(0),
        )
        return asyncio.create_task(following)

    async def is_open_again(self) -> bool:
        return self.keys == [A, B]


@pytest.mark.parametrize(
    "fault",
    [OSError("reset"), asyncio.CancelledError("nobody cancelled it"), None],
    ids=["raises", "is cancelled inside", "ends"],
)
async def test_is_opened_again_and_everything_is_looked_at(
    fault: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    followed = Followed(fault)
    task = followed.follow()
    await eventually(followed.is_open_again)
    assert (followed.opened, followed.lost, followed.closed) == (2, 1, 1)
    assert "queue: opened again in" in caplog.text
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert followed.closed == 2


async def test_what_is_no_key_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def wrong() -> AsyncIterator[NamespacedName]:
        yield "ns/a"  # type: ignore[misc]  # the fault

    async def is_told() -> bool:
        return "yield a NamespacedName" in caplog.text

    following = follow_stream(
        EventStream("queue", wrong),
        lambda key: None,
        lost=lambda: None,
        clock=FastClock(1),
        random=Random(0),
    )
    task = asyncio.create_task(following)
    await eventually(is_told)
    task.cancel()
    await asyncio.wait((task,))
