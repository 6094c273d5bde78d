"""`kubewright explain` finds the operator that runs here and tells a readable story."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import eventually
from tests.runtime.pools import Pool, build_operator, build_pool
from tests.telemetry.running import run_manager

from kubewright.cli.explain import tell
from kubewright.cli.main import main
from kubewright.cli.probes import Probes
from kubewright.cli.running_operator import announce, find_addresses
from kubewright.client.client import Client
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.runtime.manager import Manager


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@asynccontextmanager
async def run_operator() -> AsyncIterator[Client]:
    """Run the operator of pools as `kubewright run` does, beside a pool in two namespaces."""
    probes = Probes.parse("0", "0", "127.0.0.1:0")
    async with serve(ServerOptions(listening=False)) as server:
        client = Client(server.client_transport())
        probes.measure(client, "https://server:443")
        await build_operator().ensure_crds(client)
        await client.create(build_pool("default", size=2, web=True))
        manager = Manager(client, observer=probes.observer)
        build_operator().add_to(manager)
        async with probes.serve(manager), run_manager(manager):
            await eventually(lambda: has_status(client))
            yield client


async def has_status(client: Client) -> bool:
    pool = await client.get(Pool.resource, "pool", namespace="default")
    return bool((pool.get("status") or {}).get("members"))


async def explain(*arguments: str) -> int:
    return await asyncio.to_thread(main, ["explain", *arguments])


async def test_tells_what_it_wants_what_was_done_and_why_it_is_not_ready(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with run_operator():
        assert await explain("pool/pool", "-n", "default") == 0
    text = capsys.readouterr().out

    lines = text.splitlines()
    assert lines[0] == "Pool pool in default, by pool-operator"
    # Nobody runs the Deployment's pods here.
    assert any(line.startswith("Ready: False (ChildrenNotReady: Deployment pool") for line in lines)
    assert "Wants:" in lines
    assert "  Deployment default/pool" in lines
    assert "Last reconcile:" in lines
    assert any(line.strip().startswith("woken by: ") for line in lines)
    assert any(line.strip().startswith("read: Pool default/pool at ") for line in lines)


async def test_json_is_the_record_itself(capsys: pytest.CaptureFixture[str]) -> None:
    async with run_operator():
        assert await explain("pools.pools.example.com/pool", "-o", "json") == 0

    (told,) = json.loads(capsys.readouterr().out)
    writes = [write for record in told["reconciles"] for write in record["writes"]]
    assert {"ConfigMap default/pool-0", "Deployment default/pool"} <= {
        write["object"] for write in writes
    }


async def test_what_cannot_be_told_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert await explain("pool/pool") == 1
    assert "no operator runs on this machine" in capsys.readouterr().err
    assert await explain("pool/pool", "--address", "127.0.0.1:1") == 1
    assert "no operator answers at 127.0.0.1:1" in capsys.readouterr().err
    assert await explain("pool") == 1
    assert "write it as KIND/NAME" in capsys.readouterr().err
    async with run_operator() as client:
        assert await explain("pool/other") == 1
        assert "no operator has reconciled pool/other lately" in capsys.readouterr().err
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "second"}}
        await client.create(namespace)
        await client.create(build_pool("second"))
        await asyncio.sleep(0.3)
        assert await explain("pool/pool") == 1
        assert "choose one with -n: default, second" in capsys.readouterr().err


def test_a_process_that_is_gone_is_not_found_any_more(tmp_path: Path) -> None:
    (tmp_path / "12345").write_text("127.0.0.1:9")
    with announce("127.0.0.1:8", tmp_path):
        assert find_addresses(tmp_path) == ["127.0.0.1:8"]

    assert find_addresses(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with announce("127.0.0.1:8", blocked / "run"):
        pass


def build_story(**record: Any) -> dict[str, Any]:
    last = {
        "id": "1",
        "ended": "2026-11-28T06:00:00.000000Z",
        "seconds": 0.034,
        "outcome": "error",
        "failure": "no database",
        "failures": 3,
        "retryAfter": 0.04,
        "triggers": ["retry"],
        "versions": {"Pool default/pool": "7", "configmaps": ""},
        "waited": 5.0,
        "settled": False,
        "plan": [],
        "writes": [],
        "repeats": 0,
    }
    return {
        "controller": "pool-operator",
        "kind": "Pool",
        "namespace": "",
        "name": "pool",
        "exists": True,
        "deleting": True,
        "generation": 4,
        "observedGeneration": 3,
        "conditions": [{"type": "Ready", "status": "False", "reason": "Failed"}],
        "wanted": [],
        "reconciles": [last | record, last | {"failure": "", "outcome": "success"}],
    }


def test_a_story_tells_each_thing_that_stands_in_the_way() -> None:
    now = datetime(2026, 11, 28, 6, 0, 12, tzinfo=UTC)

    assert list(tell(build_story(), now)) == [
        "Pool pool, by pool-operator",
        "It is being deleted.",
        "Ready: False (Failed)",
        "Its last change (generation 4) is not worked on yet.",
        "Wants: nothing",
        "Last reconcile:",
        "  12 s ago, in 34 ms: it failed 3 times in a row; next in 0.04 s: no database",
        "  reconcileID: 1",
        "  woken by: retry",
        "  read: Pool default/pool at 7, configmaps at no version",
        "  waited 5.000 s to see what it wrote before, in vain",
        "  plan: nothing to do",
        "  failed: no database",
        "Others before:",
        "  12 s ago, in 34 ms: it succeeded 3 times in a row; next in 0.04 s",
    ]


def test_where_the_last_one_did_nothing_the_last_one_that_did_is_told_too() -> None:
    story = build_story(failure="", outcome="success", failures=0, retryAfter=None, waited=None)
    busy = story["reconciles"][0] | {"plan": ["create ConfigMap a: it does not exist"]}
    story["reconciles"] = [story["reconciles"][0], busy]

    lines = list(tell(story, datetime(2026, 11, 28, 6, 0, 12, tzinfo=UTC)))

    begin = lines.index("The last one that did something:")
    assert lines[begin + 5 :] == ["  plan:", "    create ConfigMap a: it does not exist"]
