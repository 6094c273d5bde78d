from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from pathlib import Path

from tests.local.apiserver.caller import CONFIG_MAPS, Caller

from kubewright.local.apiserver import ServerOptions, User, serve
from kubewright.local.apiserver.authentication import Authenticator
from kubewright.local.apiserver.exchange import ANONYMOUS

BOB = User("bob", ("system:authenticated",))


async def test_first_objects_are_there(call: Caller) -> None:
    listed = await call("GET", "/api/v1/namespaces")
    names = [item["metadata"]["name"] for item in listed.body["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    service = await call("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service.body["spec"]["clusterIP"] == "10.96.0.1"
    classes = await call("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert {item["metadata"]["name"]: item["value"] for item in classes.body["items"]} == {
        "system-cluster-critical": 2000000000,
        "system-node-critical": 2000001000,
    }


async def test_the_log_of_a_pod_needs_a_node_with_an_address(call: Caller) -> None:
    spec = {"nodeName": "worker", "containers": [{"name": "main", "image": "nginx"}]}
    account = {"metadata": {"name": "default"}}
    await call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    pods = "/api/v1/namespaces/default/pods"
    assert (await call("POST", pods, {"metadata": {"name": "a"}, "spec": spec})).status == 201

    lost = await call("GET", f"{pods}/a/log")
    addresses = [{"type": "ExternalIP", "address": "192.0.2.1"}]
    node = {"metadata": {"name": "worker"}, "status": {"addresses": addresses}}
    assert (await call("POST", "/api/v1/nodes", node)).status == 201
    mute = await call("GET", f"{pods}/a/log")

    assert (lost.status, lost.body["message"]) == (404, 'nodes "worker" not found')
    known = "no preferred addresses found; known addresses: [{ExternalIP 192.0.2.1}]"
    assert (mute.status, mute.body["message"]) == (500, known)
    assert "reason" not in mute.body


async def test_a_default_storage_class_is_marked_in_tables(call: Caller) -> None:
    path = "/apis/storage.k8s.io/v1/storageclasses"
    for name, default in (("fast", "true"), ("slow", "false")):
        annotations = {"storageclass.kubernetes.io/is-default-class": default}
        body = {"metadata": {"name": name, "annotations": annotations}, "provisioner": "a.com/b"}
        assert (await call("POST", path, body)).status == 201

    table = await call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    one = await call("GET", f"{path}/fast", accept="application/json;as=Table;v=v1;g=meta.k8s.io")

    assert [row["cells"][0] for row in table.body["rows"]] == ["fast (default)", "slow"]
    # Of several the newest counts, so that one alone does not tell.
    assert [row["cells"][0] for row in one.body["rows"]] == ["fast"]


async def test_published_schemas_keep_enums_and_what_stands_beside_a_reference(
    call: Caller,
) -> None:
    schemas = (await call("GET", "/openapi/v3/apis/apps/v1")).body["components"]["schemas"]

    strategy = schemas["io.k8s.api.apps.v1.DeploymentStrategy"]["properties"]["type"]
    assert strategy["enum"] == ["Recreate", "RollingUpdate"]
    assert '\n - `"Recreate"` Kill all existing pods' in strategy["description"]
    template = schemas["io.k8s.api.core.v1.Container"]["properties"]["securityContext"]
    assert template["description"]
    reference = "#/components/schemas/io.k8s.api.core.v1.SecurityContext"
    assert template["allOf"] == [{"$ref": reference}]


async def test_anonymous_sees_health_and_nothing_else(call: Caller) -> None:
    assert (await call("GET", "/readyz", user=ANONYMOUS)).body == "ok"
    assert (await call("GET", "/version", user=ANONYMOUS)).body["minor"] == "37"
    reply = await call("GET", CONFIG_MAPS, user=ANONYMOUS)
    assert reply.status == 403
    assert reply.body["message"] == (
        'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in '
        'API group "" in the namespace "default"'
    )


async def test_a_wrong_token_is_nobody(call: Caller) -> None:
    reply = await call("GET", CONFIG_MAPS, user=None, authorization="Bearer nonsense")
    assert (reply.status, reply.body["message"]) == (401, "Unauthorized")


async def test_impersonation_is_honoured(call: Caller) -> None:
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    reply = await call("POST", review, {}, impersonate_user="alice", impersonate_group="devs")
    info = reply.body["status"]["userInfo"]
    assert info == {"username": "alice", "groups": ["devs", "system:authenticated"]}


async def test_a_fault_in_a_handler_is_answered_and_survived(call: Caller, caplog: object) -> None:
    def broken() -> None:
        raise ZeroDivisionError("of the test")

    call.running.server.backend.now = broken  # type: ignore[assignment]  # a broken clock
    reply = await call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert (await call("GET", CONFIG_MAPS)).status == 200


async def test_metrics_count_requests(call: Caller) -> None:
    await call("GET", CONFIG_MAPS)
    metrics = await call("GET", "/metrics")
    assert 'resource="configmaps",subresource="",verb="LIST",version="v1"} 1' in metrics.body


async def test_unknown_groups_and_unknown_resources_differ(call: Caller) -> None:
    unknown = await call("GET", "/apis/nonsense.example.com/v1/things")
    assert (unknown.status, unknown.body) == (404, "404 page not found\n")
    missing = await call("GET", "/apis/apps/v1/nonsenses")
    assert missing.body["message"] == "the server could not find the requested resource"


async def test_aggregated_discovery_has_an_entity_tag(call: Caller) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    reply = await call("GET", "/apis", accept=accept)
    assert reply.content_type == accept
    tag = dict(reply.headers)["ETag"]
    again = await call("GET", "/apis", accept=accept, if_none_match=tag)
    assert again.status == 304


async def test_openapi_documents_have_what_kubectl_looks_for(call: Caller) -> None:
    index = await call("GET", "/openapi/v3")
    url = json.loads(index.body)["paths"]["apis/apps/v1"]["serverRelativeURL"]
    document = (await call("GET", url)).body
    item = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert "fieldValidation" in [p["name"] for p in item["patch"]["parameters"]]
    assert item["patch"]["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "io.k8s.api.core.v1.PodSpec" in document["components"]["schemas"]


def test_only_known_tokens_authenticate() -> None:
    authenticator = Authenticator({"secret": BOB})
    assert authenticator.check_token("secret") is BOB


async def test_the_listener_serves_https_and_watches(tmp_path: Path) -> None:
    async with serve(ServerOptions(folder=tmp_path)) as running:
        host, port = running.url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cadata=running.ca)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        head = f"Host: x\r\nAuthorization: Bearer {running.token}\r\n"
        body = b'{"metadata":{"name":"a"}}'
        length = f"Content-Length: {len(body)}\r\n\r\n"
        writer.write(f"POST {CONFIG_MAPS} HTTP/1.1\r\n{head}{length}".encode() + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 201")
        await _skip_answer(reader)
        writer.write(f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\n{head}\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"\r\n\r\n")
        size = int((await reader.readline()).strip(), 16)
        event = json.loads(await reader.readexactly(size))
        assert event["object"]["metadata"]["name"] == "a"
        hub = running.server.backend.hub
        watching = len(hub)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(5):
            # Nothing tells when the server has seen the end of the connection.
            while len(hub) == watching:  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.01)


async def test_the_listener_packs_large_answers_for_those_who_take_gzip(tmp_path: Path) -> None:
    async with serve(ServerOptions(folder=tmp_path)) as running:
        host, port = running.url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cadata=running.ca)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        head = f"Host: x\r\nAuthorization: Bearer {running.token}\r\nAccept-Encoding: gzip\r\n"
        for path, packed in (("/openapi/v3/api/v1", True), ("/version", False)):
            writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert ("content-encoding: gzip" in answer) == packed
            length = int(answer.split("content-length: ")[1].split("\r\n")[0])
            body = await reader.readexactly(length)
            assert json.loads(gzip.decompress(body) if packed else body)
        writer.close()
        await writer.wait_closed()


async def _skip_answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    await reader.readexactly(length)


async def test_objects_survive_a_restart(tmp_path: Path) -> None:
    options = ServerOptions(folder=tmp_path, listening=False, persistent=True)
    async with serve(options) as running:
        created = await Caller(running).config_map("a", data={"k": "v"})
    async with serve(options) as running:
        call = Caller(running)
        assert (await call("GET", f"{CONFIG_MAPS}/a")).body == created
        later = await call.config_map("b")
        versions = [o["metadata"]["resourceVersion"] for o in (created, later)]
        assert int(versions[0]) < int(versions[1])


async def test_openapi_v2_is_readable_where_a_client_misses_a_kind(call: Caller) -> None:
    document = (await call("GET", "/openapi/v2")).body
    definition = document["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert definition["properties"]["spec"]
    assert "#/components" not in json.dumps(document)
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    protobuf = await call("GET", "/openapi/v2", accept=accept)
    assert protobuf.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert protobuf.body.startswith("\n\x032.0")


async def test_a_proxy_without_a_path_leads_to_its_root_and_needs_a_pod_on_a_node(
    call: Caller,
) -> None:
    namespace = "/api/v1/namespaces/default"
    await call("POST", f"{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await call("POST", f"{namespace}/pods", pod)

    moved = await call("GET", f"{namespace}/pods/p:80/proxy")
    assert (moved.status, dict(moved.headers)["Location"]) == (
        301,
        f"{namespace}/pods/p:80/proxy/",
    )
    unreachable = await call("DELETE", f"{namespace}/pods/p/proxy/things")
    assert unreachable.status == 503
    assert "pod default/p has no node that can be reached" in unreachable.body["message"]
    assert (await call("GET", f"{namespace}/pods/nosuch/proxy/")).status == 404
    assert (await call("GET", f"{namespace}/pods/p:http:80:1/proxy/")).status == 404
