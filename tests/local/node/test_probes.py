from __future__ import annotations

import asyncio
import socket

import pytest

from kubewright.local.node.probe_handlers import (
    build_request,
    probe_exec,
    probe_http,
    probe_tcp,
    resolve_port,
)
from kubewright.local.node.probes import ProbeVerdict
from kubewright.local.node.runtime import ExecResult, Outcome

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


async def connect(address: str, port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except OSError:
        connection.close()
        raise
    return connection


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_tcp_probe_words_a_refusal_as_go_does() -> None:
    port = unused_port()
    result = await probe_tcp("127.0.0.1", port, 1.0, connect)
    assert result.outcome is FAILURE
    assert result.output == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


@pytest.mark.parametrize(("status", "outcome"), [(200, SUCCESS), (302, SUCCESS), (404, FAILURE)])
async def test_http_probe_counts_only_the_status(status: int, outcome: Outcome) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await probe_http({"path": "/h"}, "127.0.0.1", port, 5.0, connect)
    assert result.outcome is outcome
    if outcome is FAILURE:
        assert result.output == f"HTTP probe failed with statuscode: {status}"


async def test_exec_probe_tells_the_output_of_a_failure() -> None:
    async def execute(argv: list[str], timeout: float) -> ExecResult:
        return ExecResult(1, f"{argv} sick\n")

    result = await probe_exec({"command": ["x"]}, 1.0, execute)
    assert (result.outcome, result.output) == (FAILURE, "['x'] sick\n")


def test_named_ports_are_looked_up() -> None:
    assert resolve_port("web", {"web": 8080}) == 8080
    assert resolve_port(1, {}) == 1
    with pytest.raises(ValueError, match="couldn't find port"):
        resolve_port("web", {})


def test_headers_of_the_probe_replace_the_usual_ones() -> None:
    action = {"httpHeaders": [{"name": "Host", "value": "example.com"}]}
    request = build_request(action, "http://10.0.0.1:80/x?y=1", "10.0.0.1:80").decode()
    assert request.startswith("GET /x?y=1 HTTP/1.1\r\nhost: example.com\r\n")
