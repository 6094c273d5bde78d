"""At the most verbose level, a client's whole life leaves no credential in the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError
from kubewright.client.client import Client
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.local.apiserver.serving import ServerOptions, serve
from kubewright.telemetry.logs import configure_logging

HIDDEN = "aHVudGVyMi1odW50ZXIy"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("json", level=logging.DEBUG, stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


async def work(client: Client) -> None:
    """Write, read and be refused."""
    metadata = {"name": "login", "namespace": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await client.create({**secret, "data": {"password": HIDDEN}})
    await client.get(builtin.SECRET, "login", namespace="default")
    with pytest.raises(KubewrightError):
        await client.create({**secret, "data": {"password": HIDDEN}})


async def test_neither_tokens_nor_secrets_are_logged(log: io.StringIO, tmp_path: Path) -> None:
    async with serve(ServerOptions(folder=tmp_path)) as server:
        config = KubeConfig.load(server.kubeconfig(tmp_path / "kubeconfig"))
        async with connect(config) as client:
            await work(client)
        logging.getLogger("user").info("sent Authorization: Bearer %s", server.token)

    text = log.getvalue()
    assert "Authorization: Bearer ***" in text
    assert server.token not in text
    assert HIDDEN not in text
