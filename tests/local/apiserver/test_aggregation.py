"""Groups that another API server serves, behind this one."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.local.apiserver.caller import Caller

from kubewright.local.apiserver import ServerOptions, User, serve
from kubewright.local.apiserver.aggregation.proxy import build_identity
from kubewright.webhook.certificate import (
    encode_certificates,
    encode_key,
    make_authority,
    make_serving,
)

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = "v1alpha1.things.example.com"
PATH = "/apis/things.example.com/v1alpha1"
THINGS = {
    "kind": "APIResourceList",
    "groupVersion": "things.example.com/v1alpha1",
    "resources": [
        {
            "name": "things",
            "singularName": "thing",
            "namespaced": True,
            "kind": "Thing",
            "verbs": ["get", "list"],
            "shortNames": ["th"],
        },
        {"name": "things/scale", "kind": "Scale", "group": "autoscaling", "verbs": ["get"]},
    ],
}


class Extension:
    """An API server of one group: it tells who asked, as it was told."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[web.BaseRequest] = []
        self.peers: list[Any] = []

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext) -> AsyncIterator[None]:
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context)
        await site.start()
        self.port = int(runner.addresses[0][1])
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == PATH:
            return web.json_response(THINGS)
        if not request.path.startswith(f"{PATH}/"):
            return web.Response(status=404, text="404 page not found")
        self.asked.append(request)
        transport = request.transport
        self.peers.append(transport.get_extra_info("peercert") if transport else None)
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            for name in ("a", "b"):
                await response.write(f'{{"type":"ADDED","name":"{name}"}}\n'.encode())
            return response
        headers = {"X-Told": "yes"}
        return web.json_response({"query": dict(request.query)}, status=418, headers=headers)


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Caller]:
    async with serve(ServerOptions(folder=tmp_path)) as running:
        yield Caller(running)


class Authority:
    """Signs the certificate of the extension."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        authority, key = make_authority(now, timedelta(days=1))
        self.pem = encode_certificates([authority])
        names = ["things.default.svc"]
        serving, serving_key = make_serving(authority, key, names, now, timedelta(days=1))
        self._file = folder / "extension.pem"
        self._file.write_bytes(encode_key(serving_key) + encode_certificates([serving]))

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.pem).decode()

    def build_context(self, clients: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._file)
        context.load_verify_locations(cadata=clients)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


async def register(call: Caller, port: int, **spec: Any) -> None:
    service = {"metadata": {"name": "things"}, "spec": external("localhost")}
    await call("POST", "/api/v1/namespaces/default/services", service)
    body = {
        "metadata": {"name": NAME},
        "spec": {
            "group": "things.example.com",
            "version": "v1alpha1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "default", "name": "things", "port": port},
            **spec,
        },
    }
    assert (await call("POST", SERVICES, body)).status == 201


def external(name: str) -> dict[str, Any]:
    return {"type": "ExternalName", "externalName": name}


async def wait_for(call: Caller, status: str, reason: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            body = (await call("GET", f"{SERVICES}/{NAME}")).body
            for condition in body["status"].get("conditions") or ():
                if (condition["status"], condition["reason"]) == (status, reason):
                    return dict(condition)
            await asyncio.sleep(0.02)


async def read_front_authority(call: Caller) -> str:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = (await call("GET", path)).body["data"]
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    return str(data["requestheader-client-ca-file"])


async def test_requests_go_on_in_the_name_of_who_asks(call: Caller, tmp_path: Path) -> None:
    authority, extension = Authority(tmp_path), Extension()
    context = authority.build_context(await read_front_authority(call))
    async with extension.running(context):
        await register(call, extension.port, caBundle=authority.bundle)
        condition = await wait_for(call, "True", "Passed")
        assert condition["message"] == "all checks passed"
        user = User("alice", ("system:masters", "dev"), "u1", {"Scope/s": ["x"]})
        reply = await call(
            "GET",
            f"{PATH}/namespaces/default/things?labelSelector=a%3Db",
            user=user,
            x_remote_user="eve",
            authorization="Bearer secret",
        )
        (asked,) = extension.asked
    assert (reply.status, reply.body) == (418, {"query": {"labelSelector": "a=b"}})
    assert ("X-Told", "yes") in reply.headers
    assert asked.headers.getall("X-Remote-User") == ["alice"]
    assert asked.headers.getall("X-Remote-Group") == ["system:masters", "dev"]
    assert asked.headers["X-Remote-Extra-Scope%2fs".title()] == "x"
    assert "Authorization" not in asked.headers
    names = dict(pair for part in extension.peers[0]["subject"] for pair in part)
    assert names == {"commonName": "front-proxy-client"}


async def test_a_watch_comes_as_it_is_sent(call: Caller, tmp_path: Path) -> None:
    authority, extension = Authority(tmp_path), Extension()
    context = authority.build_context(await read_front_authority(call))
    async with extension.running(context):
        await register(call, extension.port, insecureSkipTLSVerify=True)
        await wait_for(call, "True", "Passed")
        events = await call.events(f"{PATH}/things?watch=1", 2)
    assert [event["name"] for event in events] == ["a", "b"]


async def test_the_group_is_discovered_in_both_forms(call: Caller, tmp_path: Path) -> None:
    authority, extension = Authority(tmp_path), Extension()
    context = authority.build_context(await read_front_authority(call))
    async with extension.running(context):
        await register(call, extension.port, caBundle=authority.bundle)
        await wait_for(call, "True", "Passed")
        groups = (await call("GET", "/apis")).body["groups"]
        group = (await call("GET", "/apis/things.example.com")).body
        assert groups[-1]["name"] == "things.example.com"
        assert group["preferredVersion"]["version"] == "v1alpha1"
        assert (await call("GET", PATH)).body == THINGS
        version = await read_version(call)
        (thing,) = version["resources"]
        assert version["freshness"] == "Current"
        assert (thing["resource"], thing["shortNames"]) == ("things", ["th"])
        assert thing["subresources"][0]["responseKind"]["group"] == "autoscaling"
        await call("DELETE", f"{SERVICES}/{NAME}")
    names = [each["name"] for each in (await call("GET", "/apis")).body["groups"]]
    assert "things.example.com" not in names
    assert (await call("GET", PATH)).status == 404


async def read_version(call: Caller) -> dict[str, Any]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = await call.answer("GET", "/apis", accept=accept)
    items = json.loads(answer.body)["items"]  # type: ignore[union-attr]  # it is no stream
    found = next(item for item in items if item["metadata"]["name"] == "things.example.com")
    return dict(found["versions"][0])


async def test_a_server_that_is_away_is_unavailable_and_stale(call: Caller, tmp_path: Path) -> None:
    authority, extension = Authority(tmp_path), Extension()
    context = authority.build_context(await read_front_authority(call))
    async with extension.running(context):
        pass
    await register(call, extension.port, caBundle=authority.bundle)
    condition = await wait_for(call, "False", "FailedDiscoveryCheck")
    assert condition["message"].startswith(
        f"failing or missing response from https://things.default.svc:{extension.port}{PATH}"
    )
    reply = await call("GET", f"{PATH}/things")
    assert (reply.status, reply.body) == (503, "service unavailable\n")
    assert (await read_version(call))["freshness"] == "Stale"
    async with extension.running(context):
        await wait_for(call, "True", "Passed")


async def test_a_certificate_of_somebody_else_is_refused(call: Caller, tmp_path: Path) -> None:
    authority, extension = Authority(tmp_path), Extension()
    context = authority.build_context(await read_front_authority(call))
    async with extension.running(context):
        await register(call, extension.port)
        condition = await wait_for(call, "False", "FailedDiscoveryCheck")
    assert "CERTIFICATE_VERIFY_FAILED" in condition["message"]


async def test_says_what_is_wrong_with_a_service(call: Caller) -> None:
    await register(call, 443)
    service = "/api/v1/namespaces/default/services/things"
    await call("DELETE", service)
    condition = await wait_for(call, "False", "ServiceNotFound")
    assert condition["message"] == 'service/things in "default" is not present'
    spec = {"ports": [{"name": "https", "port": 8443}]}
    body = {"metadata": {"name": "things"}, "spec": spec}
    await call("POST", "/api/v1/namespaces/default/services", body)
    condition = await wait_for(call, "False", "ServicePortError")
    assert condition["message"] == 'service/things in "default" is not listening on port 443'
    merge = "application/merge-patch+json"
    patch = {"spec": {"service": {"port": 8443}}}
    await call("PATCH", f"{SERVICES}/{NAME}", patch, content_type=merge)
    condition = await wait_for(call, "False", "EndpointsNotFound")
    assert condition["message"] == ('cannot find endpointslices for service/things in "default"')
    endpoints = {
        "metadata": {
            "name": "things-1",
            "labels": {"kubernetes.io/service-name": "things"},
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "https", "port": 8443}],
    }
    await call("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", endpoints)
    condition = await wait_for(call, "False", "MissingEndpoints")
    assert condition["message"] == (
        'endpointslices for service/things in "default" have no addresses with port name "https"'
    )


async def test_refuses_what_contradicts_itself(call: Caller) -> None:
    spec = {
        "group": "things.example.com",
        "version": "v1alpha1",
        "groupPriorityMinimum": 0,
        "versionPriority": 2000,
        "insecureSkipTLSVerify": True,
        "caBundle": "eA==",
        "service": {"namespace": "", "name": "things", "port": 0},
    }
    reply = await call("POST", SERVICES, {"metadata": {"name": "wrong"}, "spec": spec})
    assert reply.status == 422
    assert {cause["field"] for cause in reply.body["details"]["causes"]} == {
        "metadata.name",
        "spec.groupPriorityMinimum",
        "spec.versionPriority",
        "spec.service.namespace",
        "spec.service.port",
        "spec.insecureSkipTLSVerify",
    }


def test_the_identity_names_all_that_is_known() -> None:
    user = User("alice", ("a", "b"), extra={"Key": ["1", "2"]})
    assert build_identity(user) == [
        ("X-Remote-User", "alice"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-key", "1"),
        ("X-Remote-Extra-key", "2"),
    ]


async def test_a_bundle_that_is_none_is_said(call: Caller) -> None:
    await register(call, 443, caBundle="eHl6")
    condition = await wait_for(call, "False", "FailedDiscoveryCheck")
    assert condition["message"]
    assert (await call("GET", f"{PATH}/things")).status == 503
