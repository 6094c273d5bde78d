"""Addresses are read as Go's, and endpoints answer over HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.telemetry.endpoints import (
    Answer,
    BindAddress,
    is_local_name,
    serve_endpoints,
    serve_locally,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", BindAddress("", 8080)),
        ("127.0.0.1:0", BindAddress("127.0.0.1", 0)),
        ("[::1]:8081", BindAddress("::1", 8081)),
        ("0", None),
    ],
)
def test_reads_an_address(text: str, address: BindAddress | None) -> None:
    parsed = BindAddress.parse(text, "--flag")

    assert parsed == address
    assert parsed is None or str(parsed) == text


@pytest.mark.parametrize("text", ["", "8080", ":", ":x", ":70000", "::1:80", "host:-1"])
def test_refuses_what_is_no_address_and_names_the_flag(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--flag {text}: write it as :PORT"):
        BindAddress.parse(text, "--flag")


async def test_serves_each_path_and_nothing_else() -> None:
    endpoints = {
        "/healthz": lambda: Answer(200, "ok"),
        "/readyz": lambda: Answer(500, "not yet\n"),
    }
    async with (
        serve_endpoints(BindAddress("127.0.0.1", 0), endpoints) as bound,
        aiohttp.ClientSession(f"http://{bound}") as session,
    ):
        found = []
        for path in ("/healthz", "/readyz", "/metrics"):
            async with session.get(path) as response:
                found.append((response.status, (await response.text()).partition(":")[0]))

    assert found == [(200, "ok"), (500, "not yet\n"), (404, "404")]


async def test_an_address_in_use_is_one_sentence() -> None:
    async with serve_endpoints(BindAddress("127.0.0.1", 0), {}) as bound:
        with pytest.raises(ConfigurationError, match=f"cannot listen on {bound}: "):
            async with serve_endpoints(bound, {}):
                pass


async def test_serves_locally_with_the_query_and_to_nobody_elses_name() -> None:
    endpoints = {"/debug": lambda query: Answer(200, f"about {query['name']}")}
    async with (
        serve_locally(BindAddress("127.0.0.1", 0), endpoints) as bound,
        aiohttp.ClientSession(f"http://{bound}") as session,
    ):
        async with session.get("/debug?name=a") as response:
            assert (response.status, await response.text()) == (200, "about a")
        async with session.get("/debug?name=a", headers={"Host": "evil.example"}) as response:
            assert response.status == 403


async def test_an_endpoint_that_nobody_asks_costs_no_http_server() -> None:
    async with serve_locally(BindAddress("127.0.0.1", 0), {}) as bound:
        with pytest.raises(ConfigurationError, match=f"cannot listen on {bound}: "):
            async with serve_locally(bound, {}):
                pass


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1:80", True),
        ("[::1]:80", True),
        ("10.1.2.3", True),
        ("localhost:1", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_only_names_that_cannot_be_pointed_elsewhere_are_local(host: str, is_local: bool) -> None:
    assert is_local_name(host) is is_local
