"""An API server asks our webhooks, whichever server it is and whatever the functions do."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from kubewright.api import builtin
from kubewright.api.errors import (
    ConfigurationError,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    Timeout,
)
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.webhook.certificate_source import FileCertificates
from kubewright.webhook.configuration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Endpoint,
)
from kubewright.webhook.registration import Registration
from kubewright.webhook.server import WebhookServer
from tests.webhook.conftest import LOOPBACK, Serving, build_certificates, eventually, read_shown
from tests.webhook.widgets import Widget, build_operator, build_widget


@pytest.fixture(autouse=True)
async def widgets_are_served(client: Client) -> None:
    await build_operator().ensure_crds(client)


async def until_asked(client: Client, namespace: str) -> None:
    """Wait until the API server knows the webhooks: a real one hears of them a moment later."""

    async def is_asked() -> bool:
        try:
            await client.create(build_widget("probe", namespace, size=-1), dry_run=True)
        except Invalid:
            return True
        except InternalError:
            return False  # it still asks the server of the test before
        return False

    await eventually(is_asked)


async def test_a_write_is_filled_in_and_checked(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        created = await client.create(build_widget("a", namespace, size=2))
        assert created["spec"]["colour"] == "grey"

        with pytest.raises(Invalid) as refusal:
            await client.patch(
                Widget.resource,
                "a",
                {"spec": {"size": 1}},
                type=PatchType.MERGE,
                namespace=namespace,
            )

        expected = (
            'admission webhook "validate.v1.widgets.widgets.example.com" denied the request: '
            "spec.size: must not shrink from 2"
        )
        assert str(refusal.value) == expected


async def test_a_dry_run_is_checked_and_filled_in_and_leaves_nothing(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        shown = await client.create(build_widget("a", namespace), dry_run=True)
        assert shown["spec"]["colour"] == "grey"
        assert len(await client.list(Widget.resource, namespace=namespace)) == 0


async def test_a_deletion_is_refused_where_a_function_says_so(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        for name, colour in (("a", "gold"), ("b", "red")):
            await client.create(build_widget(name, namespace, colour=colour))

        with pytest.raises(Forbidden, match="gold is kept"):
            await client.delete(Widget.resource, "a", namespace=namespace)
        await client.delete(Widget.resource, "b", namespace=namespace)


async def test_a_fault_of_a_function_is_told_with_its_place_and_logged_once(
    client: Client, namespace: str, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        caplog.set_level(logging.INFO, "kubewright.webhook")
        for _ in range(3):
            with pytest.raises(InternalError) as fault:
                await client.create(build_widget("a", namespace, colour="fault"))
            assert "KeyError: 'palette' (webhook/widgets.py:" in str(fault.value)

        faults = [record for record in caplog.records if "palette" in record.getMessage()]
        assert len(faults) == 1
        assert faults[0].exc_info is not None

        with pytest.raises(InternalError, match="LookupError: no colour today"):
            await client.create(build_widget("a", namespace, colour="default-fault"))


async def test_a_typed_refusal_arrives_as_its_type(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        with pytest.raises(Conflict, match="somebody else painted it"):
            await client.create(build_widget("a", namespace, colour="conflict"))


async def test_a_hanging_function_is_cut_before_the_api_server_gives_up(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_asked(client, namespace)
        await set_timeout(client, 1)
        told: list[str] = []

        async def is_cut() -> bool:
            # Until a real API server has heard of the shorter timeout, the function ends in time.
            try:
                await client.create(build_widget("a", namespace, colour="hang"), dry_run=True)
            except Timeout as error:
                told.append(str(error))
            return bool(told)

        others = asyncio.create_task(client.create(build_widget("b", namespace), dry_run=True))
        await eventually(is_cut, 20)
        await others
        assert "no answer within 0.8 s: after that it was at webhook/widgets.py:" in told[0]


async def set_timeout(client: Client, seconds: int) -> None:
    live = await client.get(VALIDATING_WEBHOOK_CONFIGURATION, "widget-operator")
    patch = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": seconds}]
    name = live["metadata"]["name"]
    await client.patch(VALIDATING_WEBHOOK_CONFIGURATION, name, patch, type=PatchType.JSON)


async def test_the_configurations_stay_when_a_replica_ends_and_another_serves(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        before = await configurations(client)
    assert await configurations(client) == before
    async with serving(build_operator()):
        await until_asked(client, namespace)
        assert await configurations(client) != before  # another port


async def configurations(client: Client) -> list[Object]:
    return [
        (await client.get(resource, "widget-operator"))["webhooks"]
        for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
    ]


async def test_two_replicas_share_one_secret(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()), serving(build_operator()):
        secret = await client.get(builtin.SECRET, "webhook-cert", namespace=namespace)
        assert secret["type"] == "kubernetes.io/tls"
        await until_asked(client, namespace)


async def test_until_a_certificate_is_loaded_it_is_not_ready(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()) as server:
        assert server.find_problems() == ()
    assert server.find_problems() == ("webhooks are not served: no certificate is loaded",)


class RefusedRegistration(Registration):
    """A registration that the API server refuses until a right is granted."""

    is_allowed = False

    async def read_authorities(self) -> bytes:
        if not self.is_allowed:
            raise Forbidden("webhook configurations: no right to get")
        return await super().read_authorities()

    async def ensure(self, endpoint: Endpoint, authorities: bytes) -> None:
        if not self.is_allowed:
            raise Forbidden("webhook configurations: no right to patch")
        await super().ensure(endpoint, authorities)


async def test_a_missing_right_is_told_once_and_used_when_it_is_granted(
    client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    registration = RefusedRegistration(client, [build_operator()])
    server = WebhookServer(
        [build_operator()],
        host="127.0.0.1",
        port=0,
        certificates=build_certificates(client, namespace, interval=0.05),
        endpoint=LOOPBACK,
        registration=registration,
    )
    task = asyncio.create_task(server.run())

    async def is_told() -> bool:
        return "no right to patch" in caplog.text

    await eventually(is_told)
    await asyncio.sleep(0.3)
    assert caplog.text.count("no right to patch") == 1
    assert server.find_problems() == ()

    registration.is_allowed = True
    await until_asked(client, namespace)
    task.cancel()
    await asyncio.wait((task,))


async def test_a_refused_registration_does_not_keep_a_certificate_from_being_renewed(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    async def write_files(*names: str) -> None:
        made = await build_certificates(client, namespace).load(names, None)
        (tmp_path / "tls.crt").write_bytes(made.certificate)
        (tmp_path / "tls.key").write_bytes(made.key)

    await write_files("127.0.0.1")
    server = WebhookServer(
        [build_operator()],
        host="127.0.0.1",
        port=0,
        certificates=FileCertificates(tmp_path, interval=timedelta(seconds=0.05)),
        endpoint=LOOPBACK,
        registration=RefusedRegistration(client, [build_operator()]),
    )
    task = asyncio.create_task(server.run())

    async def is_serving() -> bool:
        return server.port != 0

    await eventually(is_serving)
    before = await read_shown(server)
    await write_files("127.0.0.1", "other.example")

    async def is_renewed() -> bool:
        return await read_shown(server) != before

    await eventually(is_renewed)
    task.cancel()
    await asyncio.wait((task,))


async def test_a_taken_port_ends_the_server_with_a_sentence(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()) as server:
        second = WebhookServer(
            [build_operator()],
            host="127.0.0.1",
            port=server.port,
            certificates=build_certificates(client, namespace),
        )
        with pytest.raises(ConfigurationError, match=r"cannot serve webhooks on 127\.0\.0\.1:"):
            await second.run()
