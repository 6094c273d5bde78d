from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.local.node.objects import NOW, build_pod

from kubewright.api.resource import NamespacedName, Object
from kubewright.client.clock import SystemClock
from kubewright.local.node.endpoint_access import EndpointAccess
from kubewright.local.node.log_server import LogServer, parse_options
from kubewright.local.node.log_source import LogRefused, LogSource
from kubewright.local.node.logs import LogWriter

TOKEN = {"Authorization": "Bearer secret"}


class Lister:
    """A node with one pod, whose container c has a log and whose container d has none."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "0.log"
        log = LogWriter(self.path, lambda: NOW)
        log.write("stdout", b"one")
        log.write("stderr", b"two")
        log.close()

    def pods(self) -> list[Object]:
        return [build_pod()]

    def find_log(self, key: NamespacedName, container: str, *, previous: bool) -> LogSource:
        if container == "d":
            raise LogRefused(400, 'container "d" in pod "p" is waiting to start: PodInitializing')
        return LogSource(self.path, lambda: False)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    server = LogServer(Lister(tmp_path), EndpointAccess(token="secret"), SystemClock())
    port = await server.start("127.0.0.1")
    yield f"https://127.0.0.1:{port}"
    await server.stop()


async def get(url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, headers=headers) as response,
    ):
        return response.status, await response.text()


async def test_health_is_open_and_logs_are_not(url: str) -> None:
    assert await get(f"{url}/healthz") == (200, "ok")
    assert (await get(f"{url}/containerLogs/ns/p/c"))[0] == 401
    assert (await get(f"{url}/pods"))[0] == 401


async def test_serves_a_log_by_options(url: str) -> None:
    assert await get(f"{url}/containerLogs/ns/p/c", TOKEN) == (200, "one\ntwo\n")
    assert await get(f"{url}/containerLogs/ns/p/c?tailLines=1&follow=true", TOKEN) == (
        200,
        "two\n",
    )


async def test_says_why_there_is_no_log(url: str) -> None:
    status, text = await get(f"{url}/containerLogs/ns/p/d", TOKEN)
    assert (status, text) == (
        400,
        'container "d" in pod "p" is waiting to start: PodInitializing',
    )
    assert (await get(f"{url}/containerLogs/ns/p/c?tailLines=x", TOKEN))[0] == 400


async def test_lists_pods(url: str) -> None:
    _, text = await get(f"{url}/pods", TOKEN)
    assert [pod["metadata"]["name"] for pod in json.loads(text)["items"]] == ["p"]


def test_since_seconds_counts_back_from_now() -> None:
    options = parse_options({"sinceSeconds": "60", "timestamps": "true"}, NOW)
    assert options.since is not None
    assert (NOW - options.since).total_seconds() == 60
    assert options.timestamps
