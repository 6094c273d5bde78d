from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.local.node.connecting import connect

from kubewright.api.resource import Object
from kubewright.local.node.http_probe import build_request, build_url, probe_http
from kubewright.local.node.runtime import Outcome, ProbeResult

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


@asynccontextmanager
async def serving(answers: dict[str, str]) -> AsyncIterator[int]:
    """Serve answers by path; yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.read(1 << 16)).decode("latin-1")
        path = head.split(" ")[1] if head.startswith("GET ") else ""
        writer.write(answers.get(path, "").replace("\n", "\r\n").encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def probe(port: int, action: Object) -> ProbeResult:
    return await probe_http(action, "127.0.0.1", port, 5.0, connect)


@pytest.mark.parametrize(("status", "outcome"), [(200, SUCCESS), (302, SUCCESS), (404, FAILURE)])
async def test_only_the_status_counts(status: int, outcome: Outcome) -> None:
    async with serving({"/h": f"HTTP/1.1 {status} X\n\n"}) as port:
        result = await probe(port, {"path": "/h"})
    assert result.outcome is outcome
    assert result.has_answer
    if outcome is FAILURE:
        assert result.output == f"HTTP probe failed with statuscode: {status}"


async def test_redirect_to_the_same_host_is_followed() -> None:
    answers = {"/a": "HTTP/1.1 302 X\nLocation: /b\n\n", "/b": "HTTP/1.1 500 X\n\n"}
    async with serving(answers) as port:
        result = await probe(port, {"path": "/a"})
    assert result.output == "HTTP probe failed with statuscode: 500"


async def test_redirect_elsewhere_is_a_success_with_a_warning() -> None:
    elsewhere = "HTTP/1.1 302 X\nLocation: http://example.com/\nContent-Length: 4\n\ngone"
    async with serving({"/": elsewhere}) as port:
        result = await probe(port, {})
    assert (result.outcome, result.warning) == (
        SUCCESS,
        "Probe terminated redirects, Response body: gone",
    )


async def test_redirects_in_a_circle_fail() -> None:
    async with serving({"/": "HTTP/1.1 302 X\nLocation: /\n\n"}) as port:
        result = await probe(port, {})
    assert result.output == f'Get "http://127.0.0.1:{port}/": stopped after 10 redirects'


async def test_connection_that_closes_without_an_answer_is_worded_as_go_does() -> None:
    async with serving({}) as port:
        result = await probe(port, {})
    assert result.output == f'Get "http://127.0.0.1:{port}/": EOF'
    assert not result.has_answer


async def test_plain_server_behind_https_is_told_apart() -> None:
    async with serving({"": "HTTP/1.0 400 Bad Request\n\n"}) as port:
        result = await probe(port, {"scheme": "HTTPS"})
    reason = "http: server gave HTTP response to HTTPS client"
    assert result.output == f'Get "https://127.0.0.1:{port}/": {reason}'


def test_headers_of_the_probe_replace_the_usual_ones() -> None:
    headers = [
        {"name": "Host", "value": "example.com"},
        {"name": "user-agent", "value": "mine"},
        {"name": "Accept", "value": ""},
        {"name": "X-A", "value": "1"},
        {"name": "X-A", "value": "2"},
    ]
    request = build_request({"httpHeaders": headers}, "http://10.0.0.1:80/x?y=1", "10.0.0.1:80")
    assert request.decode().split("\r\n") == [
        "GET /x?y=1 HTTP/1.1",
        "Host: example.com",
        "user-agent: mine",
        "X-A: 1",
        "X-A: 2",
        "Connection: close",
        "",
        "",
    ]


def test_path_without_a_slash_gets_one() -> None:
    assert build_url({"path": "healthz"}, "10.0.0.1", 80) == "http://10.0.0.1:80/healthz"
    assert build_url({"scheme": "HTTPS"}, "fd00::1", 8443) == "https://[fd00::1]:8443/"
