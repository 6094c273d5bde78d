from __future__ import annotations

import asyncio

from tests.local.network.directories import add_service, add_slice, endpoint

from kubewright.local.network.departures import Departures
from kubewright.local.network.service_directory import ServiceDirectory


def test_endpoints_that_end_do_not_stay() -> None:
    directory = ServiceDirectory()
    add_service(directory, "web", clusterIP="10.96.0.1")
    ending = {"addresses": ["10.0.0.2"], "conditions": {"ready": False, "terminating": True}}
    add_slice(directory, "web", endpoint("10.0.0.1"), ending)
    assert directory.staying_addresses() == {"10.0.0.1"}


async def test_waits_until_the_rules_lead_elsewhere() -> None:
    departures = Departures()
    departures.note({"10.0.0.1", "10.0.0.2"})
    waiting = asyncio.create_task(departures.wait("10.0.0.1", 20))
    departures.note({"10.0.0.1"})
    await asyncio.sleep(0)
    assert not waiting.done()
    departures.note(frozenset())
    await waiting


async def test_waits_for_nobody_that_is_not_led_to_and_for_nobody_for_ever() -> None:
    departures = Departures()
    await departures.wait("10.0.0.1", 20)
    departures.note({"10.0.0.1"})
    await departures.wait("10.0.0.1", 0.01)
