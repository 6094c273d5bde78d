from __future__ import annotations

from typing import Self

import pytest

from kubewright.api import builtin
from kubewright.api.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    Expired,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
)
from kubewright.api.resource import Object, Resource
from kubewright.client import Client, PatchType, Response
from tests.client.scripted_transport import (
    FakeClock,
    Script,
    ScriptedTransport,
    answer,
    failure,
    listing,
    pod,
)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}


class Widget:
    """A custom resource class, as small as the client lets it be."""

    resource = Resource("example.com", "v1", "Widget", "widgets")

    def __init__(self, body: bytes) -> None:
        self.body = body

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        return cls(raw)

    def to_object(self) -> Object:
        metadata = {"name": "w", "namespace": "n"}
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


def client_of(*replies: Response | Script | Exception) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport.of(*replies)
    return Client(transport, user_agent="test", clock=FakeClock()), transport


async def test_get_reads_an_object_by_its_path() -> None:
    client, transport = client_of(answer(pod("a", 1)))
    assert await client.get(builtin.POD, "a", namespace="ns") == pod("a", 1)
    assert transport.calls[0].method == "GET"
    assert transport.calls[0].path == "/api/v1/namespaces/ns/pods/a"
    assert transport.calls[0].headers["User-Agent"] == "test"


async def test_get_of_a_class_answers_its_instance() -> None:
    client, transport = client_of(answer({"spec": 1}))
    widget = await client.get(Widget, "w", namespace="n")
    assert widget.body == b'{"spec":1}'
    assert transport.calls[0].path == "/apis/example.com/v1/namespaces/n/widgets/w"


async def test_refuses_an_object_of_a_namespaced_kind_without_its_namespace() -> None:
    client, transport = client_of()
    with pytest.raises(ValueError, match="pods live in namespaces"):
        await client.get(builtin.POD, "a")
    assert transport.calls == []


async def test_refuses_an_empty_name_that_would_address_the_collection() -> None:
    client, _ = client_of()
    with pytest.raises(ValueError, match="has no name"):
        await client.delete(builtin.POD, "", namespace="n")


@pytest.mark.parametrize("name", ["..", "a/status", "a%2fb"])
async def test_refuses_a_name_that_would_address_something_else(name: str) -> None:
    client, transport = client_of()
    with pytest.raises(ValueError, match="cannot have the name"):
        await client.delete(builtin.POD, name, namespace="n")
    assert transport.calls == []


async def test_list_follows_pages_and_gives_items_their_type() -> None:
    client, transport = client_of(listing(7, pod("a", 1), token="t"), listing(7, pod("b", 2)))
    found = await client.list(builtin.POD, labels={"b": "2", "a": "1"}, limit=1)
    assert found.items == [pod("a", 1), pod("b", 2)]
    assert found.resource_version == "7"
    assert transport.calls[0].query == {"labelSelector": "a=1,b=2", "limit": "1"}
    assert transport.calls[1].query == {"labelSelector": "a=1,b=2", "limit": "1", "continue": "t"}


async def test_list_reads_all_at_once_when_its_version_expires_between_pages() -> None:
    client, transport = client_of(
        listing(7, pod("a", 1), token="t"),
        failure(410, "Expired"),
        listing(9, pod("b", 8)),
    )
    found = await client.list(builtin.POD, limit=1)
    assert found.items == [pod("b", 8)]
    assert found.resource_version == "9"
    assert transport.calls[2].query == {}


async def test_a_list_that_is_none_is_a_broken_answer() -> None:
    client, _ = client_of(Response(200, {}, b"<html>"))
    with pytest.raises(TransportError, match="not a list"):
        await client.list(builtin.POD)


async def test_create_posts_into_the_objects_namespace_in_the_managers_name() -> None:
    client, transport = client_of(answer({**CONFIG_MAP, "data": {}}, 201))
    assert await client.create(CONFIG_MAP, dry_run=True) == {**CONFIG_MAP, "data": {}}
    call = transport.calls[0]
    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/n/configmaps")
    assert call.query == {"fieldManager": "kubewright", "dryRun": "All"}
    assert call.headers["Content-Type"] == "application/json"
    assert call.json == CONFIG_MAP


async def test_create_takes_and_answers_instances() -> None:
    client, transport = client_of(answer({"made": True}, 201))
    made = await client.create(Widget(b""))
    assert made.body == b'{"made":true}'
    assert transport.calls[0].path == "/apis/example.com/v1/namespaces/n/widgets"


async def test_replace_puts_to_a_subresource() -> None:
    client, transport = client_of(answer(CONFIG_MAP))
    await client.replace(CONFIG_MAP, subresource="status")
    assert transport.calls[0].method == "PUT"
    assert transport.calls[0].path == "/api/v1/namespaces/n/configmaps/a/status"


@pytest.mark.parametrize("type", list(PatchType))
async def test_patch_sends_the_media_type_of_its_kind(type: PatchType) -> None:
    client, transport = client_of(answer(CONFIG_MAP))
    await client.patch(builtin.CONFIG_MAP, "a", {"data": None}, type=type, namespace="n")
    assert transport.calls[0].headers["Content-Type"] == type.value
    assert transport.calls[0].json == {"data": None}


async def test_apply_forces_by_default_and_names_the_manager() -> None:
    client, transport = client_of(answer(CONFIG_MAP), answer(CONFIG_MAP))
    await client.apply(CONFIG_MAP)
    await client.apply(CONFIG_MAP, force=False, field_manager="me")
    assert transport.calls[0].method == "PATCH"
    assert transport.calls[0].headers["Content-Type"] == "application/apply-patch+yaml"
    assert transport.calls[0].query == {"fieldManager": "kubewright", "force": "true"}
    assert transport.calls[1].query == {"fieldManager": "me", "force": "false"}


async def test_delete_guards_by_uid_and_version() -> None:
    client, transport = client_of(answer({"kind": "Status", "status": "Success"}))
    await client.delete(
        builtin.POD, "a", namespace="n", uid="u", resource_version="3", grace_period_seconds=0
    )
    assert transport.calls[0].json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (429, "TooManyRequests", TooManyRequests),
    ],
)
async def test_a_status_becomes_the_error_of_its_reason(
    code: int, reason: str, error: type[APIError]
) -> None:
    client, transport = client_of(failure(code, reason, "why"))
    with pytest.raises(error, match="why"):
        await client.get(builtin.POD, "a", namespace="n")
    assert len(transport.calls) == 1


async def test_an_answer_that_is_no_status_becomes_the_error_of_its_code() -> None:
    client, _ = client_of(Response(404, {}, b"404 page not found\n"), Response(502, {}, b""))
    with pytest.raises(NotFound, match="404 page not found"):
        await client.request("GET", "/x")
    with pytest.raises(APIError, match="answered 502"):
        await client.request("GET", "/x")


async def test_comes_back_when_the_server_says_when() -> None:
    client, transport = client_of(
        failure(429, "TooManyRequests", Retry_After="1"),
        failure(503, "ServiceUnavailable", Retry_After="2"),
        answer(CONFIG_MAP, 201),
    )
    await client.create(CONFIG_MAP)
    assert [call.method for call in transport.calls] == ["POST"] * 3
    assert isinstance(client._clock, FakeClock)
    assert client._clock.sleeps == [1, 2]


async def test_gives_a_busy_server_up_after_five_more_tries() -> None:
    busy = failure(503, "ServiceUnavailable", Retry_After="1")
    client, transport = client_of(*[busy] * 6)
    with pytest.raises(ServiceUnavailable) as caught:
        await client.request("GET", "/x")
    assert len(transport.calls) == 6
    assert caught.value.retry_after == 1


async def test_does_not_wait_longer_than_ten_seconds() -> None:
    client, transport = client_of(failure(429, "TooManyRequests", Retry_After="60"))
    with pytest.raises(TooManyRequests) as caught:
        await client.request("GET", "/x")
    assert len(transport.calls) == 1
    assert caught.value.retry_after == 60


async def test_logs_a_warning_of_the_server_once(caplog: pytest.LogCaptureFixture) -> None:
    text = r'299 - "unknown field \"spec.x\"", 299 - "v1beta1 is deprecated"'
    client, _ = client_of(answer(CONFIG_MAP, Warning=text), answer(CONFIG_MAP, Warning=text))
    await client.get(builtin.CONFIG_MAP, "a", namespace="n")
    await client.get(builtin.CONFIG_MAP, "a", namespace="n")
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        'unknown field "spec.x"',
        "v1beta1 is deprecated",
    ]


async def test_closes_its_transport() -> None:
    client, transport = client_of()
    async with client:
        assert not transport.closed
    assert transport.closed
