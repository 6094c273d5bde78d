from __future__ import annotations

import socket

import pytest
from tests.local.node.connecting import connect

from kubewright.local.node.probe_handlers import (
    probe_exec,
    probe_tcp,
    resolve_port,
)
from kubewright.local.node.probes import (
    ProbeKind,
    ProbeVerdict,
    describe_result,
    expand_command,
)
from kubewright.local.node.runtime import ExecResult, Outcome, ProbeResult

SUCCESS, FAILURE, UNKNOWN = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNKNOWN


def test_fails_after_three_failures_in_a_row() -> None:
    verdict = ProbeVerdict({})
    outcomes = [FAILURE, FAILURE, SUCCESS, FAILURE, FAILURE, FAILURE]
    assert [verdict.add(outcome) for outcome in outcomes] == [None, None, True, None, None, False]


def test_unknown_results_count_for_nothing() -> None:
    verdict = ProbeVerdict({"failureThreshold": 2})
    assert [verdict.add(o) for o in (FAILURE, UNKNOWN, FAILURE)] == [None, None, False]


def test_success_threshold_asks_for_more_than_one() -> None:
    verdict = ProbeVerdict({"successThreshold": 2})
    assert [verdict.add(o) for o in (SUCCESS, SUCCESS)] == [None, True]


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_tcp_probe_words_a_refusal_as_go_does() -> None:
    port = unused_port()
    result = await probe_tcp("127.0.0.1", port, 1.0, connect)
    assert result.outcome is FAILURE
    assert result.output == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_exec_probe_tells_the_output_of_a_failure() -> None:
    async def execute(argv: list[str], timeout: float) -> ExecResult:
        return ExecResult(1, f"{argv} sick\n")

    result = await probe_exec({"command": ["x"]}, 1.0, execute)
    assert (result.outcome, result.output) == (FAILURE, "['x'] sick\n")


def test_named_ports_are_looked_up() -> None:
    assert resolve_port("web", {"web": 8080}) == 8080
    assert resolve_port(1, {}) == 1
    with pytest.raises(ValueError, match="invalid syntax"):
        resolve_port("web", {})


async def test_exec_probe_that_takes_too_long_fails_in_the_kubelets_words() -> None:
    async def execute(argv: list[str], timeout: float) -> ExecResult:
        raise TimeoutError

    result = await probe_exec({"command": ["sleep", "9"]}, 1.0, execute)
    assert (result.outcome, result.output) == (
        FAILURE,
        'command timed out: "sleep 9" timed out after 1s',
    )


def test_command_of_a_probe_sees_only_plain_variables() -> None:
    env = [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": {}}]
    probe = {"exec": {"command": ["echo", "$(A)", "$(B)", "$(C)"]}, "periodSeconds": 1}
    expanded = expand_command({"env": env}, probe)
    assert expanded["exec"] == {"command": ["echo", "a", "", "$(C)"]}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ProbeResult(SUCCESS), None),
        (ProbeResult(SUCCESS, warning="w"), ("ProbeWarning", "Readiness probe warning: w")),
        (ProbeResult(FAILURE, "no"), ("Unhealthy", "Readiness probe failed: no")),
        (
            ProbeResult(UNKNOWN, "x"),
            ("Unhealthy", "Readiness probe errored and resulted in unknown state: x"),
        ),
    ],
)
def test_results_are_told_in_the_kubelets_words(
    result: ProbeResult, told: tuple[str, str] | None
) -> None:
    assert describe_result(ProbeKind.READINESS, result) == told
