"""The API server is kept told: what is wiped comes back, what is right costs no write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.operator import Operator
from kubewright.webhook.certificate import encode_certificates, make_authority
from kubewright.webhook.configuration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Endpoint,
)
from kubewright.webhook.registration import Registration, contains, plan_switch
from tests.webhook.widgets import Widget, WidgetSpec, build_operator

URL = Endpoint.parse(url="https://127.0.0.1:9443")
SERVICE = Endpoint.parse(service="system/hooks")


@pytest.fixture(autouse=True)
async def nothing_is_registered(client: Client) -> None:
    for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
        try:
            await client.delete(resource, "widget-operator")
        except NotFound:
            continue


async def read(client: Client) -> Object:
    return await client.get(VALIDATING_WEBHOOK_CONFIGURATION, "widget-operator")


async def ensure(client: Client, endpoint: Endpoint, operator: Operator | None = None) -> None:
    await Registration(client, [operator or build_operator()]).ensure(endpoint, authority())


def authority() -> bytes:
    """Return an authority that an API server accepts as one."""
    return encode_certificates([make_authority(datetime.now(UTC), timedelta(days=1))[0]])


async def test_what_is_right_already_is_not_written_again(client: Client) -> None:
    registration, trusted = Registration(client, [build_operator()]), authority()
    await registration.ensure(URL, trusted)
    before = await read(client)
    await registration.ensure(URL, trusted)

    after = await read(client)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    managers = {entry["manager"] for entry in after["metadata"]["managedFields"]}
    assert managers == {"widget-operator-webhook"}


async def test_what_is_trusted_by_now_can_be_read(client: Client) -> None:
    registration, trusted = Registration(client, [build_operator()]), authority()
    assert await registration.read_authorities() == b""

    await registration.ensure(SERVICE, trusted)

    assert await registration.read_authorities() == trusted


async def test_what_somebody_wiped_comes_back(client: Client) -> None:
    await ensure(client, URL)
    wipe = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    await client.patch(
        VALIDATING_WEBHOOK_CONFIGURATION, "widget-operator", wipe, type=PatchType.JSON
    )

    await ensure(client, URL)

    assert (await read(client))["webhooks"][0]["clientConfig"]["caBundle"]


@pytest.mark.parametrize(("first", "second"), [(URL, SERVICE), (SERVICE, URL)])
async def test_an_endpoint_that_another_manager_wrote_is_switched(
    client: Client, first: Endpoint, second: Endpoint
) -> None:
    await ensure(client, first)
    live = await read(client)
    # As `kubectl replace` would: the fields belong to somebody else from now on.
    live["webhooks"][0]["timeoutSeconds"] = 5
    live["metadata"].pop("managedFields")
    await client.replace(live)

    await ensure(client, second)

    (webhook,) = (await read(client))["webhooks"]
    config = {key: value for key, value in webhook["clientConfig"].items() if key != "caBundle"}
    assert config == second.build_client_config("/validate/widgets.example.com/v1/widgets")
    assert webhook["timeoutSeconds"] == 10


async def test_a_configuration_that_nobody_answers_any_more_goes(client: Client) -> None:
    await ensure(client, URL)
    smaller = Operator("widget-operator")

    @smaller.default(Widget)
    def fill(widget: Widget) -> None: ...

    await ensure(client, URL, smaller)

    assert await client.get(MUTATING_WEBHOOK_CONFIGURATION, "widget-operator")
    with pytest.raises(NotFound):
        await read(client)


async def test_a_configuration_of_somebody_else_stays(client: Client) -> None:
    stranger = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "widget-operator"},
        "webhooks": [],
    }
    await client.create(stranger)

    await ensure(client, URL, Operator("widget-operator"))

    assert await read(client)


class Absent(CustomResource[WidgetSpec, Status], group="absent.example.com", version="v2"):
    """A kind that is not installed."""


class OldAbsent(
    CustomResource[WidgetSpec, Status],
    group="absent.example.com",
    version="v1",
    kind="Absent",
    storage=False,
):
    """The same, as it was."""


async def test_a_conversion_without_its_crd_says_so(client: Client) -> None:
    operator = Operator("widget-operator")

    @operator.convert(OldAbsent, Absent)
    def up(old: OldAbsent) -> Absent:
        return Absent(metadata=old.metadata, spec=old.spec)

    @operator.convert(Absent, OldAbsent)
    def down(new: Absent) -> OldAbsent:
        return OldAbsent(metadata=new.metadata, spec=new.spec)

    with pytest.raises(NotFound, match=r"the CRD absents.absent.example.com is not installed"):
        await ensure(client, URL, operator)


def test_a_crd_is_switched_from_a_service_to_a_url() -> None:
    def crd(config: Object) -> Object:
        return {
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config}}}
        }

    service = {"namespace": "a", "name": "b"}
    pointer = "/spec/conversion/webhook/clientConfig"

    assert plan_switch(crd({"service": service}), crd({"url": "u"})) == [
        {"op": "test", "path": f"{pointer}/service", "value": service},
        {"op": "replace", "path": pointer, "value": {"url": "u"}},
    ]
    assert plan_switch(crd({"url": "v"}), crd({"url": "u"})) == []
    assert plan_switch({"spec": {}}, crd({"url": "u"})) == []


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        (
            {"a": [{"name": "x", "b": 1}, {"name": "y"}]},
            {"a": [{"name": "y"}, {"name": "x"}]},
            True,
        ),
        ({"a": [{"name": "x"}, {"name": "y"}]}, {"a": [{"name": "y"}, {"name": "z"}]}, False),
        ({"a": {}}, {"a": []}, False),
    ],
)
def test_more_than_is_wanted_is_no_difference(live: Any, wanted: Any, expected: bool) -> None:
    assert contains(live, wanted) is expected
