"""The controllers together, on an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_deployment, build_replica_set

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import ConfigurationError, Forbidden, NotFound, TransportError
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport
from kubewright.local.controllers import CONTROLLERS, select_controllers
from kubewright.local.controllers.names import selects_metrics_server
from kubewright.testing import Faults
from kubewright.testing.faulty_transport import FaultyTransport

WIDGET = Resource("tests.example.com", "v1", "Widget", "widgets")


def fresh(obj: Object, namespace: str, **metadata: Any) -> Object:
    """Return an object to create in a namespace."""
    name = obj["metadata"]["name"]
    obj["metadata"] = {"name": name, "namespace": namespace, **metadata}
    obj.pop("status", None)
    return obj


def build_config_map(name: str, namespace: str, **metadata: Any) -> Object:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return fresh(config_map, namespace, **metadata)


def refer(owner: Object, **fields: Any) -> list[Object]:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **fields}
    return [{**reference, "name": metadata["name"], "uid": metadata["uid"]}]


async def exists(client: Client, resource: Resource, name: str, namespace: str | None) -> bool:
    try:
        await client.get(resource, name, namespace=namespace)
    except NotFound:
        return False
    return True


async def test_a_deployment_rolls_out_and_keeps_its_pods_available(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    async with running("all"):
        await client.create(fresh(build_deployment(4), namespace))

        async def is_complete() -> bool:
            deployment = await client.get(builtin.DEPLOYMENT, "web", namespace=namespace)
            status = deployment["status"]
            counts = (status.get("updatedReplicas"), status.get("availableReplicas"))
            observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
            return observed and counts == (4, 4) and status.get("replicas") == 4

        await eventually(is_complete)
        kubelet.watch_availability()
        template = {"metadata": {"labels": {"v": "2"}}}
        await client.patch(
            builtin.DEPLOYMENT,
            "web",
            {"spec": {"template": template}},
            type=PatchType.MERGE,
            namespace=namespace,
        )
        await eventually(is_complete)
    assert kubelet.fewest is not None
    assert kubelet.fewest >= 3
    assert kubelet.most <= 5
    versions = {(e.meta.labels or {})["v"] for e in kubelet.pods.list() if not e.meta.is_deleting}
    assert versions == {"2"}


async def test_a_deployment_is_deleted_with_all_that_it_made(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    async with running("all"):
        await client.create(fresh(build_deployment(2), namespace))

        async def is_running() -> bool:
            return kubelet.ready() == 2

        async def is_gone() -> bool:
            kinds = (builtin.DEPLOYMENT, builtin.REPLICA_SET, builtin.POD)
            return not any([len(await client.list(k, namespace=namespace)) for k in kinds])

        await eventually(is_running)
        await client.delete(
            builtin.DEPLOYMENT, "web", namespace=namespace, propagation="Foreground"
        )
        await eventually(is_gone)


class PodCreations:
    """Does something else with creations of pods; everything else goes on as it is."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def create(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        raise NotImplementedError

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        if method == "POST" and path.endswith("/pods"):
            return await self.create(path, body, headers)
        return await self.transport.request(method, path, query=query, headers=headers, body=body)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        return self.transport.stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        pass


class LosingTransport(PodCreations):
    """Loses the answers to the first creations."""

    left = 3

    async def create(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        response = await self.transport.request("POST", path, headers=headers, body=body)
        if self.left:
            self.left -= 1
            raise TransportError("the answer was lost")
        return response


class SlowTransport(PodCreations):
    """Holds creations back, as a network does that delivers them after their sender died."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.late: list[tuple[str, bytes, Mapping[str, str]]] = []

    async def create(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        self.late.append((path, body, headers))
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers")


class DeliveringTransport(PodCreations):
    """Delivers the late creations of another sender just before its own first one."""

    def __init__(self, transport: Transport, slow: SlowTransport) -> None:
        super().__init__(transport)
        self._slow = slow

    async def create(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        while self._slow.late:
            where, what, how = self._slow.late.pop()
            await self.transport.request("POST", where, headers=how, body=what)
        return await self.transport.request("POST", path, headers=headers, body=body)


class RefusingTransport(PodCreations):
    """Refuses to create pods while `refuses` is set, as a quota does."""

    refuses = True

    async def create(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        if self.refuses:
            status = Forbidden("exceeded quota: q").to_status()
            return Response(403, {}, msgspec.json.encode(status))
        return await self.transport.request("POST", path, headers=headers, body=body)


async def test_what_keeps_pods_from_being_made_is_reported_until_they_are(
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    refusing = RefusingTransport(transport)
    async with running("deployment", "replicaset", through=refusing):
        await client.create(fresh(build_deployment(2), namespace))

        async def failure() -> Object | None:
            deployment = await client.get(builtin.DEPLOYMENT, "web", namespace=namespace)
            return find_condition(deployment["status"].get("conditions") or (), "ReplicaFailure")

        async def is_reported() -> bool:
            return await failure() is not None

        async def is_told() -> bool:
            events = await client.list(builtin.CORE_EVENT, namespace=namespace)
            told = {(event["reason"], event["message"]) for event in events}
            return ("FailedCreate", "Error creating: exceeded quota: q") in told

        async def has_recovered() -> bool:
            return await failure() is None and len(kubelet.pods) == 2

        await eventually(is_reported)
        found = await failure()
        assert found is not None
        assert (found["reason"], found["message"]) == ("FailedCreate", "exceeded quota: q")
        await eventually(is_told)
        refusing.refuses = False
        await eventually(has_recovered)


async def test_an_answer_that_is_lost_makes_no_second_pod(
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    losing = LosingTransport(transport)
    async with running("replicaset", through=losing):
        await client.create(fresh(build_replica_set(replicas=5), namespace))

        async def has_pods() -> bool:
            return len(kubelet.pods) >= 5

        await eventually(has_pods)
    assert losing.left == 0
    assert len(kubelet.names) == 5


async def test_a_creation_that_arrives_after_its_sender_died_makes_no_pod_too_many(
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    replica_set = fresh(build_replica_set(replicas=5), namespace)
    await client.create(replica_set)
    slow = SlowTransport(transport)

    async def is_sent() -> bool:
        return bool(slow.late)

    async def has_settled() -> bool:
        live = await client.get(builtin.REPLICA_SET, "web", namespace=namespace)
        return bool(live["status"].get("replicas") == 5) and not slow.late

    async with running("replicaset", through=slow, dies=True):
        await eventually(is_sent)
    async with running("replicaset", through=DeliveringTransport(transport, slow)):
        await eventually(has_settled)
    assert len(kubelet.names) == 5


@pytest.mark.usefixtures("patience")
async def test_a_view_of_pods_that_lags_behind_makes_no_pod_too_many(
    client: Client,
    transport: Transport,
    namespace: str,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    faults = Faults()
    faults.lag_watches("pods", by=0.2)
    async with running("replicaset", through=FaultyTransport(transport, faults)):
        await client.create(fresh(build_replica_set(replicas=3), namespace))

        async def has_settled() -> bool:
            live = await client.get(builtin.REPLICA_SET, "web", namespace=namespace)
            return bool(live["status"].get("replicas") == 3)

        await eventually(has_settled)
        await client.patch(
            builtin.REPLICA_SET,
            "web",
            {"spec": {"replicas": 5}},
            type=PatchType.MERGE,
            namespace=namespace,
        )

        async def has_grown() -> bool:
            live = await client.get(builtin.REPLICA_SET, "web", namespace=namespace)
            return bool(live["status"].get("replicas") == 5)

        await eventually(has_grown)
    assert len(kubelet.names) == 5


async def test_custom_resources_own_and_are_collected_as_their_kind_appears(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    definition: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.tests.example.com"},
        "spec": {
            "group": "tests.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    async with running("garbage-collector"):
        await client.create(definition)

        async def is_served() -> bool:
            try:
                await client.list(WIDGET, namespace=namespace)
            except NotFound:
                return False
            return True

        await eventually(is_served)
        widget: Object = {"apiVersion": "tests.example.com/v1", "kind": "Widget"}
        widget["metadata"] = {"name": "w", "namespace": namespace}
        owner = await client.create(widget)
        await client.create(build_config_map("child", namespace, ownerReferences=refer(owner)))
        stray = refer({**owner, "metadata": {"name": "nobody", "uid": "no-such-uid"}})
        await client.create(build_config_map("stray", namespace, ownerReferences=stray))

        async def is_stray_gone() -> bool:
            return not await exists(client, builtin.CONFIG_MAP, "stray", namespace)

        async def is_child_gone() -> bool:
            return not await exists(client, builtin.CONFIG_MAP, "child", namespace)

        await eventually(is_stray_gone)
        assert not await is_child_gone()
        await client.delete(WIDGET, "w", namespace=namespace)
        await eventually(is_child_gone)
        await client.delete(builtin.CUSTOM_RESOURCE_DEFINITION, definition["metadata"]["name"])


async def test_orphans_stay_without_their_reference(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    owner = await client.create(build_config_map("owner", namespace))
    await client.create(build_config_map("child", namespace, ownerReferences=refer(owner)))
    async with running("garbage-collector"):
        await client.delete(builtin.CONFIG_MAP, "owner", namespace=namespace, propagation="Orphan")

        async def is_owner_gone() -> bool:
            return not await exists(client, builtin.CONFIG_MAP, "owner", namespace)

        await eventually(is_owner_gone)
        child = await client.get(builtin.CONFIG_MAP, "child", namespace=namespace)
    assert "ownerReferences" not in child["metadata"]


async def test_dependents_of_a_kind_that_is_not_served_stay(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    unknown = [{"apiVersion": "gone.example.com/v1", "kind": "Gone", "name": "g", "uid": "u"}]
    absent = [{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "v"}]
    await client.create(build_config_map("kept", namespace, ownerReferences=unknown))
    await client.create(build_config_map("collected", namespace, ownerReferences=absent))
    async with running("garbage-collector"):

        async def is_collected() -> bool:
            return not await exists(client, builtin.CONFIG_MAP, "collected", namespace)

        await eventually(is_collected)
        assert await exists(client, builtin.CONFIG_MAP, "kept", namespace)


async def test_a_namespace_is_filled_kept_and_emptied(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    async with running("namespace", "serviceaccount", "root-ca-certificate-publisher"):

        async def is_filled() -> bool:
            account = await exists(client, builtin.SERVICE_ACCOUNT, "default", namespace)
            return account and await exists(
                client, builtin.CONFIG_MAP, "kube-root-ca.crt", namespace
            )

        await eventually(is_filled)
        held = build_config_map("held", namespace, finalizers=["example.com/wait"])
        await client.create(held)
        await client.delete(builtin.NAMESPACE, namespace)

        async def says_why() -> bool:
            conditions = (await client.get(builtin.NAMESPACE, namespace))["status"].get(
                "conditions"
            )
            true = [c["type"] for c in conditions or () if c["status"] == "True"]
            return true == ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]

        async def is_gone() -> bool:
            return not await exists(client, builtin.NAMESPACE, namespace, None)

        await eventually(says_why)
        released = {"metadata": {"finalizers": None}}
        await client.patch(
            builtin.CONFIG_MAP, "held", released, type=PatchType.MERGE, namespace=namespace
        )
        await eventually(is_gone)


async def test_a_pod_that_fits_nowhere_is_placed_when_it_does(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    node = f"node-{namespace}"
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod = fresh(pod, namespace)
    pod["spec"] = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i"}]}
    async with running("scheduler", "node-lifecycle"):
        await client.create(pod)

        async def says_why() -> bool:
            live = await client.get(builtin.POD, "p", namespace=namespace)
            conditions = live["status"].get("conditions") or ()
            return any(c.get("reason") == "Unschedulable" for c in conditions)

        async def is_placed() -> bool:
            live = await client.get(builtin.POD, "p", namespace=namespace)
            return bool(live["spec"].get("nodeName") == node)

        await eventually(says_why)
        labelled = {"metadata": {"labels": {"disk": "ssd"}}}
        await client.patch(builtin.NODE, node, labelled, type=PatchType.MERGE)
        await eventually(is_placed)


def test_controllers_are_chosen_by_name() -> None:
    assert select_controllers(["all"]) == list(CONTROLLERS)
    assert select_controllers(["deployment", "namespace"]) == ["namespace", "deployment"]
    assert "scheduler" not in select_controllers(["*", "-scheduler"])
    assert "metrics-server" not in select_controllers(["all", "-metrics-server"])
    with pytest.raises(ConfigurationError, match="unknown controllers nobody"):
        select_controllers(["nobody"])


def test_the_metrics_server_is_chosen_like_a_controller() -> None:
    assert selects_metrics_server(["all", "-scheduler"])
    assert selects_metrics_server(["metrics-server"])
    assert not selects_metrics_server(["*", "-metrics-server"])
    assert not selects_metrics_server([])
