"""Faults between a client and a server in the same process."""

from __future__ import annotations

import asyncio
import time

import pytest

from kubewright.api import builtin
from kubewright.api.errors import (
    Conflict,
    Expired,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.testing import Faults
from tests.testing.objects import build_config_map


async def patch(client: Client, namespace: str, **data: str) -> None:
    await client.patch(
        builtin.CONFIG_MAP, "settings", {"data": data}, type=PatchType.MERGE, namespace=namespace
    )


async def data_of(client: Client, namespace: str) -> object:
    found = await client.get(builtin.CONFIG_MAP, "settings", namespace=namespace)
    return found["data"]


async def test_the_third_patch_fails_and_no_other(
    client: Client, faults: Faults, namespace: str
) -> None:
    await client.create(build_config_map(namespace, word="a"))
    rule = faults.fail("PATCH", "configmaps", nth=3, code=409)

    await patch(client, namespace, word="b")
    await patch(client, namespace, word="c")
    with pytest.raises(Conflict):
        await patch(client, namespace, word="lost")
    assert await data_of(client, namespace) == {"word": "c"}
    await patch(client, namespace, word="d")

    assert [str(hit) for hit in faults.log] == [f"{rule.hits[0]}: answered 409 Conflict"]


async def test_a_cut_after_commit_loses_only_the_answer(
    client: Client, faults: Faults, namespace: str
) -> None:
    faults.cut("create", "configmaps", after_commit=True)

    with pytest.raises(TransportError):
        await client.create(build_config_map(namespace, word="a"))

    assert await data_of(client, namespace) == {"word": "a"}


async def test_a_cut_before_commit_loses_the_request(
    client: Client, faults: Faults, namespace: str
) -> None:
    faults.cut("create", "configmaps")

    with pytest.raises(TransportError):
        await client.create(build_config_map(namespace, word="a"))

    with pytest.raises(NotFound):
        await data_of(client, namespace)


async def test_an_outage_lasts_until_it_is_lifted(
    client: Client, faults: Faults, namespace: str
) -> None:
    with faults.unavailable() as rule:
        for _ in range(3):
            with pytest.raises(ServiceUnavailable):
                await client.list(builtin.CONFIG_MAP, namespace=namespace)

    await client.list(builtin.CONFIG_MAP, namespace=namespace)
    assert len(rule.hits) == 3


async def test_retry_after_is_heard_by_the_client(
    client: Client, faults: Faults, namespace: str
) -> None:
    faults.fail("list", "configmaps", code=429, retry_after=0, times=2)

    await client.list(builtin.CONFIG_MAP, namespace=namespace)
    assert faults.traffic.total == 3

    faults.fail("list", "configmaps", code=429, retry_after=60)
    with pytest.raises(TooManyRequests) as refused:
        await client.list(builtin.CONFIG_MAP, namespace=namespace)
    assert refused.value.retry_after == 60


async def test_credentials_are_rejected_once(
    client: Client, faults: Faults, namespace: str
) -> None:
    faults.reject_credentials()

    with pytest.raises(Unauthorized):
        await client.list(builtin.CONFIG_MAP, namespace=namespace)
    await client.list(builtin.CONFIG_MAP, namespace=namespace)


async def test_a_continue_token_expires_amid_a_list(
    client: Client, faults: Faults, namespace: str
) -> None:
    for number in range(3):
        await client.create(build_config_map(namespace, f"map-{number}"))
    faults.expire_pages("configmaps")

    with pytest.raises(Expired):
        _ = [
            page
            async for page in client.list_pages(builtin.CONFIG_MAP, namespace=namespace, limit=1)
        ]


async def test_a_watch_is_refused_with_410(client: Client, faults: Faults, namespace: str) -> None:
    faults.expire_watches("configmaps")

    with pytest.raises(Expired):
        async with client.watch(builtin.CONFIG_MAP, namespace=namespace):
            pass
    async with client.watch(builtin.CONFIG_MAP, namespace=namespace):
        pass


async def test_held_requests_reach_the_server_when_released(
    client: Client, admin: Client, faults: Faults, namespace: str
) -> None:
    rule = faults.hold("create", "configmaps")
    creating = asyncio.create_task(client.create(build_config_map(namespace, word="a")))
    await rule.wait_hit()

    with pytest.raises(NotFound):
        await data_of(admin, namespace)
    assert faults.traffic.in_flight == 1
    rule.lift()
    await creating

    assert await data_of(admin, namespace) == {"word": "a"}


async def test_a_delayed_answer_comes_after_the_server_acted(
    client: Client, admin: Client, faults: Faults, namespace: str
) -> None:
    faults.delay("create", "configmaps", by=0.2)
    began = time.monotonic()
    creating = asyncio.create_task(client.create(build_config_map(namespace, word="a")))

    async with admin.watch(builtin.CONFIG_MAP, namespace=namespace, resource_version="0") as events:
        async for event in events:
            if event.meta.name == "settings":
                break
    assert not creating.done()
    await creating
    assert time.monotonic() - began >= 0.2


async def test_dropped_watches_break_and_closed_ones_end(
    client: Client, faults: Faults, namespace: str
) -> None:
    async with client.watch(builtin.CONFIG_MAP, namespace=namespace) as events:
        assert faults.drop_watches("pods") == 0
        assert faults.drop_watches("configmaps") == 1
        with pytest.raises(TransportError):
            _ = [event async for event in events]

    async with client.watch(builtin.CONFIG_MAP, namespace=namespace) as events:
        assert faults.drop_watches(clean=True) == 1
        _ = [event async for event in events]


@pytest.mark.parametrize(("code", "error"), [(500, InternalError), (410, Expired)])
async def test_an_error_event_ends_a_watch(
    client: Client, faults: Faults, namespace: str, code: int, error: type[Exception]
) -> None:
    async with client.watch(builtin.CONFIG_MAP, namespace=namespace) as events:
        assert faults.send_error("configmaps", code=code) == 1
        with pytest.raises(error):
            _ = [event async for event in events]


async def test_a_lagging_watch_brings_its_events_late(
    client: Client, admin: Client, faults: Faults, namespace: str
) -> None:
    listed = await admin.list(builtin.CONFIG_MAP, namespace=namespace)
    async with client.watch(
        builtin.CONFIG_MAP, namespace=namespace, resource_version=listed.resource_version
    ) as events:
        rule = faults.lag_watches("configmaps", by=0.2)
        began = time.monotonic()
        await admin.create(build_config_map(namespace, "one"))
        assert (await anext(events)).meta.name == "one"
        assert time.monotonic() - began >= 0.2

        with faults.lag_watches("configmaps", by=3600):
            await admin.create(build_config_map(namespace, "two"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await anext(events)
    assert len(rule.hits) == 1


async def test_lifting_a_lag_brings_what_was_kept_back(
    client: Client, admin: Client, faults: Faults, namespace: str
) -> None:
    listed = await admin.list(builtin.CONFIG_MAP, namespace=namespace)
    async with client.watch(
        builtin.CONFIG_MAP, namespace=namespace, resource_version=listed.resource_version
    ) as events:
        rule = faults.lag_watches("configmaps", by=3600)
        reading = asyncio.ensure_future(anext(events))
        await admin.create(build_config_map(namespace, "one"))
        await asyncio.sleep(0.05)
        assert not reading.done()
        rule.lift()
        assert (await reading).meta.name == "one"


@pytest.mark.parametrize("after_commit", [False, True])
async def test_after_a_kill_nothing_passes(
    client: Client, admin: Client, faults: Faults, namespace: str, after_commit: bool
) -> None:
    rule = faults.kill("create", "configmaps", after_commit=after_commit)
    killed = asyncio.create_task(client.create(build_config_map(namespace, word="a")))
    await rule.wait_hit()
    late = asyncio.create_task(client.create(build_config_map(namespace, "late")))
    await asyncio.wait((killed, late), timeout=0.1)

    assert not killed.done()
    assert not late.done()
    found = [
        obj["metadata"]["name"] for obj in await admin.list(builtin.CONFIG_MAP, namespace=namespace)
    ]
    assert ("settings" in found) is after_commit
    assert "late" not in found
    faults.revive()
    await client.create(build_config_map(namespace, "of-the-next-life"))
    assert not killed.done()
    assert not late.done()
    for task in (killed, late):
        task.cancel()
    await asyncio.wait((killed, late))


async def test_traffic_counts_requests_writes_and_the_most_in_flight(
    client: Client, faults: Faults, namespace: str
) -> None:
    rule = faults.hold("create", "configmaps")
    creating = [
        asyncio.create_task(client.create(build_config_map(namespace, f"map-{number}")))
        for number in range(5)
    ]
    await rule.wait_hit(5)
    rule.lift()
    await asyncio.gather(*creating)
    await client.list(builtin.CONFIG_MAP, namespace=namespace)

    traffic = faults.traffic
    assert (traffic.total, len(traffic.writes), traffic.max_in_flight) == (6, 5, 5)
    assert traffic.by_verb == {"create": 5, "list": 1}
    assert {call.status for call in traffic.writes} == {201}


async def test_rules_add_up_and_the_first_made_decides(
    client: Client, faults: Faults, namespace: str
) -> None:
    first = faults.fail("list", code=500)
    second = faults.fail("list", code=503, times=None)

    with pytest.raises(InternalError):
        await client.list(builtin.CONFIG_MAP, namespace=namespace)
    with pytest.raises(ServiceUnavailable):
        await client.list(builtin.CONFIG_MAP, namespace=namespace)

    assert (len(first.hits), len(second.hits), second.seen) == (1, 1, 2)
    faults.clear()
    await client.list(builtin.CONFIG_MAP, namespace=namespace)
