"""Probe 20: the certificate and its authority are replaced under load, and no call fails."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kubewright.api import builtin
from kubewright.client.client import Client
from kubewright.webhook.certificate import (
    Lifetimes,
    encode_certificates,
    encode_key,
    is_signed_by,
)
from kubewright.webhook.certificate_rotation import make_material
from kubewright.webhook.certificate_source import FileCertificates
from kubewright.webhook.configuration import VALIDATING_WEBHOOK_CONFIGURATION
from kubewright.webhook.registration import Registration
from kubewright.webhook.server import WebhookServer
from tests.webhook.conftest import LOOPBACK, Serving, eventually, read_shown
from tests.webhook.test_webhook_server import until_asked
from tests.webhook.widgets import build_operator, build_widget

CALLERS = 8


@pytest.fixture(autouse=True)
async def widgets_are_served(client: Client) -> None:
    await build_operator().ensure_crds(client)


@asynccontextmanager
async def load(client: Client, namespace: str) -> AsyncIterator[Counter[str]]:
    """Ask the webhooks without a pause, and count what comes of it."""
    outcomes: Counter[str] = Counter()

    async def call() -> None:
        while True:
            try:
                created = await client.create(build_widget("a", namespace), dry_run=True)
                outcomes["ok" if created["spec"]["colour"] == "grey" else "not asked"] += 1
            except Exception as error:
                outcomes[f"{type(error).__name__}: {error}"] += 1

    callers = [asyncio.create_task(call()) for _ in range(CALLERS)]
    try:
        yield outcomes
    finally:
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)


async def test_the_certificate_and_its_authority_are_replaced_under_load(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator(), settle=0.3, interval=0.1) as server:
        await until_asked(client, namespace)
        async with load(client, namespace) as outcomes:
            for _ in range(3):
                before = await read_shown(server)
                # To delete the Secret is how one asks for new certificates.
                await client.delete(builtin.SECRET, "webhook-cert", namespace=namespace)
                await eventually(lambda before=before: shows_another(server, before))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                count = outcomes["ok"]
                await eventually(lambda count=count: has_more(outcomes, count + 100))  # type: ignore[misc]  # the same
        newest, *older = await read_bundle(client, namespace)

    assert set(outcomes) == {"ok"}, outcomes
    assert outcomes["ok"] >= 300
    shown = x509.load_pem_x509_certificate(before.encode())
    assert not is_signed_by(shown, newest)
    assert any(is_signed_by(shown, authority) for authority in older)


async def test_two_replicas_follow_one_rotation_under_load(
    client: Client, namespace: str, serving: Serving
) -> None:
    """The configurations lead to one of the two; both must come to show the same certificate."""
    options = {"settle": 0.3, "interval": 0.1}
    operator = build_operator()
    async with serving(operator, **options) as one, serving(operator, **options) as two:
        await until_asked(client, namespace)
        before = await read_shown(one)
        async with load(client, namespace) as outcomes:
            await client.delete(builtin.SECRET, "webhook-cert", namespace=namespace)
            for server in (one, two):
                await eventually(lambda server=server: shows_another(server, before))  # type: ignore[misc]  # the same
        assert await read_shown(one) == await read_shown(two)

    assert set(outcomes) == {"ok"}, outcomes


async def test_files_of_another_authority_are_taken_under_load(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    """As cert-manager replaces a mounted Secret: certificate, key and authority at once."""

    async def write_files() -> None:
        made = make_material(["127.0.0.1"], datetime.now(UTC), Lifetimes())
        fresh = tmp_path / f"new-{made.serving.serial_number}"
        fresh.mkdir()
        (fresh / "tls.crt").write_bytes(encode_certificates([made.serving]))
        (fresh / "tls.key").write_bytes(encode_key(made.serving_key))
        (fresh / "ca.crt").write_bytes(encode_certificates(made.authorities))
        (tmp_path / "link").symlink_to(fresh)
        (tmp_path / "link").rename(tmp_path / "certs")

    await write_files()
    server = WebhookServer(
        [build_operator()],
        host="127.0.0.1",
        port=0,
        certificates=FileCertificates(
            tmp_path / "certs", settle=timedelta(seconds=0.3), interval=timedelta(seconds=0.1)
        ),
        endpoint=LOOPBACK,
        registration=Registration(client, [build_operator()]),
    )
    task = asyncio.create_task(server.run())
    await until_asked(client, namespace)
    before = await read_shown(server)
    async with load(client, namespace) as outcomes:
        await write_files()
        await eventually(lambda: shows_another(server, before))
        count = outcomes["ok"]
        await eventually(lambda: has_more(outcomes, count + 100))
    task.cancel()
    await asyncio.wait((task,))

    assert set(outcomes) == {"ok"}, outcomes


async def has_more(outcomes: Counter[str], count: int) -> bool:
    return outcomes["ok"] >= count


async def shows_another(server: WebhookServer, before: str) -> bool:
    return await read_shown(server) != before


async def read_bundle(client: Client, namespace: str) -> list[x509.Certificate]:
    """Return the authorities that the API server trusts, which are those of the Secret."""
    secret = await client.get(builtin.SECRET, "webhook-cert", namespace=namespace)
    live = await client.get(VALIDATING_WEBHOOK_CONFIGURATION, "widget-operator")
    bundle = live["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle == secret["data"]["ca.crt"]
    return x509.load_pem_x509_certificates(base64.b64decode(bundle))
