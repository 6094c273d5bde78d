"""The page of metrics names exactly the metrics that exist, with their types and labels."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Manager
from kubewright.telemetry.metrics import Metrics
from tests.telemetry.running import run_manager

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_ROW = re.compile(r"\| `([a-z_]+)` \| (counter|gauge|histogram) \| (.*?) ?\| (.+) \|")

Described = dict[str, tuple[str, frozenset[str]]]


def read_page() -> Described:
    found: Described = {}
    for name, type, labels, _ in _ROW.findall(PAGE.read_text()):
        assert name not in found, f"{name} is there twice"
        found[name] = (type, frozenset(re.findall(r"`(\w+)`", labels)))
    return found


@pytest.fixture
async def existing() -> Described:
    """Collect the metrics of a process in which everything that is measured has happened."""
    metrics = Metrics(rest_client_histograms=True)

    async def reconcile(key: NamespacedName, ctx: Context) -> None:
        """Do nothing."""

    async with serve(ServerOptions(listening=False)) as server:
        client = Client(metrics.measure(server.client_transport(), "server:443"))
        await client.request("GET", "/version")
        manager = Manager(client, observer=metrics)
        manager.add(Controller("c", builtin.CONFIG_MAP, reconcile))
        metrics.leading("lease", is_leading=False)
        metrics.webhooks.webhook("/validate")
        async with run_manager(manager):
            await asyncio.sleep(0.05)
            families = [*metrics.registry.collect()]
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
        )
        for family in families
    }


async def test_the_page_names_what_exists_and_nothing_else(existing: Described) -> None:
    page = read_page()

    assert sorted(page.keys() - existing.keys()) == []
    assert sorted(existing.keys() - page.keys()) == []
    assert page == existing
