"""Addresses are read as Go's, and endpoints answer over HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.telemetry.endpoints import Answer, BindAddress, serve_endpoints


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
