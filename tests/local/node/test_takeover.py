"""Containers outlive the process that started them; the next one of the same folder takes over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.local.node.programs import Program, is_gone, wait_until

from kubewright.api.resource import Object

pytestmark = pytest.mark.processes

StartAgent = Callable[[str], Program]


@pytest.fixture(params=["root", "ordinary"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    # Not tmp_path, whose parents are closed to other users.
    folder = Path("/tmp", f"kubewright-takeover-{os.getpid()}-{request.param}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start_agent(folder: Path) -> Iterator[StartAgent]:
    agents: list[Program] = []

    def start(verb: str) -> Program:
        user = folder.name.rpartition("-")[2]
        agents.append(Program("tests.local.node.agent", user, folder, verb))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


def by_name(report: Object) -> dict[str, Object]:
    return {container["name"]: container for container in report["containers"]}


def lines(folder: Path, name: str) -> list[str]:
    """Return the text of a log's lines."""
    text = (folder / f"{name}.log").read_text()
    return [line.split(" ", 3)[3] for line in text.splitlines()]


def test_next_agent_takes_over_what_runs_and_hears_what_has_ended(
    folder: Path, start_agent: StartAgent
) -> None:
    first = start_agent("start")
    before = by_name(first.report)
    wait_until(lambda: len(lines(folder, "clock")) > 2, "the container writes")
    first.kill()
    (folder / "signals" / "end").touch()
    wait_until(lambda: is_gone(before["short"]["pid"]), "the short container ends")

    second = start_agent("take")
    assert second.report["enter"] == first.report["enter"]
    assert second.report["address"] == first.report["address"]
    assert second.report["hostname"] == "p"
    after = by_name(second.report)
    assert after["clock"] == before["clock"]
    assert after["short"]["exit"] == 7
    assert lines(folder, "short") == ["over"]
    count = len(lines(folder, "clock"))
    wait_until(lambda: len(lines(folder, "clock")) > count, "the log goes on")
    # No line is lost or doubled by the change of the reader.
    written = lines(folder, "clock")
    assert written == [f"tick {number}" for number in range(len(written))]

    second.end()
    assert is_gone(before["clock"]["pid"])
    assert is_gone(int(first.report["enter"][-1]))


def test_pod_can_be_taken_over_again_and_again(start_agent: StartAgent) -> None:
    agent = start_agent("start")
    before = by_name(agent.report)
    for _ in range(3):
        agent.kill()
        agent = start_agent("take")
        assert by_name(agent.report) == before


def test_holder_that_is_killed_takes_all_with_it(start_agent: StartAgent) -> None:
    agent = start_agent("start")
    holder = int(agent.report["enter"][-1])
    agent.kill()
    os.kill(holder, 9)
    pids = [container["pid"] for container in agent.report["containers"]]
    wait_until(lambda: all(map(is_gone, pids)), "the containers end")
    again = start_agent("take")
    assert "containers" not in again.report
    assert again.report["enter"] != agent.report["enter"]
