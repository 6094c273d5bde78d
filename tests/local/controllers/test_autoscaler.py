"""The autoscaler on an API server, with a metrics API that a test fills."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_deployment

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object, Resource
from kubewright.api.time import format_time
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.client.transport import NO_HEADERS, Query, Response, Stream, Transport

AUTOSCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


class Metrics:
    """Answers for the metrics APIs in front of a server: usage by pod, and one external value."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.cpu: str | None = None
        self.external: str | None = None
        self.queries: list[Query] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        items: list[Object] | None = None
        if path.startswith("/apis/metrics.k8s.io/") and self.cpu is not None:
            self.queries.append(query)
            items = await self._measure(path.split("/")[5], self.cpu)
        if path.startswith("/apis/external.metrics.k8s.io/") and self.external is not None:
            now = format_time(datetime.now(UTC))
            items = [{"metricName": "queue", "value": self.external, "timestamp": now}]
        if items is not None:
            return Response(200, {}, msgspec.json.encode({"items": items}))
        return await self._transport.request(method, path, query=query, headers=headers, body=body)

    async def _measure(self, namespace: str, cpu: str) -> list[Object]:
        pods = await Client(self._transport).list(builtin.POD, namespace=namespace)
        return [
            {
                "metadata": {"name": pod["metadata"]["name"]},
                "timestamp": format_time(datetime.now(UTC)),
                "window": "0s",
                "containers": [{"name": "c", "usage": {"cpu": cpu}}],
            }
            for pod in pods.items
        ]

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        await self._transport.close()


def build_autoscaler(namespace: str, *metrics: Object, name: str = "h", **spec: Any) -> Object:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 4,
            **({"metrics": list(metrics)} if metrics else {}),
            **spec,
        },
    }


USAGE: Object = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}},
}
QUEUE: Object = {
    "type": "External",
    "external": {
        "metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}


async def deploy(client: Client, namespace: str, replicas: int) -> None:
    deployment = build_deployment(replicas)
    deployment["metadata"] = {"name": "web", "namespace": namespace}
    await client.create(deployment)


async def read_replicas(client: Client, namespace: str) -> int:
    deployment = await client.get(builtin.DEPLOYMENT, "web", namespace=namespace)
    return int(deployment["spec"]["replicas"])


async def read_condition(client: Client, namespace: str, type: str, name: str = "h") -> Object:
    autoscaler = await client.get(AUTOSCALER, name, namespace=namespace)
    conditions = (autoscaler.get("status") or {}).get("conditions") or ()
    return find_condition(conditions, type) or {}


async def test_a_busy_deployment_is_scaled_up(
    client: Client,
    namespace: str,
    transport: Transport,
    running: Running,
    kubelet: Kubelet,
    eventually: Eventually,
) -> None:
    metrics = Metrics(transport)
    metrics.cpu = "300m"
    await deploy(client, namespace, 1)
    async with running("*", through=metrics):

        async def is_ready() -> bool:
            return kubelet.ready() == 1

        await eventually(is_ready)
        # The kubelet in miniature reports no start, without which cpu samples do not count.
        entry = kubelet.pods.list()[0]
        start = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
        await patch_status(client, namespace, entry.meta.name, start)
        await client.create(build_autoscaler(namespace, USAGE))

        async def is_scaled() -> bool:
            return await read_replicas(client, namespace) == 3

        await eventually(is_scaled)

        async def is_told() -> bool:
            autoscaler = await client.get(AUTOSCALER, "h", namespace=namespace)
            return (autoscaler.get("status") or {}).get("desiredReplicas") == 3

        await eventually(is_told)
    able = await read_condition(client, namespace, "AbleToScale")
    assert able["message"] == "the HPA controller was able to update the target scale to 3"
    active = await read_condition(client, namespace, "ScalingActive")
    assert active["message"] == (
        "the HPA was able to successfully calculate a replica count from cpu resource"
    )
    assert dict(metrics.queries[0]) == {"labelSelector": "app=web"}
    autoscaler = await client.get(AUTOSCALER, "h", namespace=namespace)
    (current,) = autoscaler["status"]["currentMetrics"]
    assert current["resource"]["current"] == {"averageValue": "300m"}


async def patch_status(client: Client, namespace: str, name: str, status: Object) -> None:
    await client.patch(
        builtin.POD,
        name,
        status,
        type=PatchType.MERGE,
        namespace=namespace,
        subresource="status",
    )


async def test_a_metric_that_fails_never_scales_down(
    client: Client, namespace: str, transport: Transport, running: Running, eventually: Eventually
) -> None:
    metrics = Metrics(transport)
    metrics.external = "10"
    await deploy(client, namespace, 3)
    async with running("deployment", "replicaset", "horizontal-pod-autoscaler", through=metrics):
        await client.create(build_autoscaler(namespace, USAGE, QUEUE))

        async def has_failed() -> bool:
            return bool(await read_condition(client, namespace, "ScalingActive"))

        await eventually(has_failed)
    active = await read_condition(client, namespace, "ScalingActive")
    assert active["reason"] == "FailedGetResourceMetric"
    assert await read_replicas(client, namespace) == 3


async def test_two_autoscalers_of_the_same_pods_both_stand_still(
    client: Client, namespace: str, transport: Transport, running: Running, eventually: Eventually
) -> None:
    metrics = Metrics(transport)
    metrics.external = "40"
    await deploy(client, namespace, 2)
    async with running("deployment", "replicaset", "horizontal-pod-autoscaler", through=metrics):

        async def has_pods() -> bool:
            return len(await client.list(builtin.POD, namespace=namespace)) == 2

        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
        await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
        await eventually(has_pods)
        quiet = {**QUEUE["external"], "target": {"type": "AverageValue", "averageValue": "20"}}
        await client.create(build_autoscaler(namespace, {**QUEUE, "external": quiet}, name="g"))

        async def is_evaluated() -> bool:
            return bool(await read_condition(client, namespace, "ScalingActive", "g"))

        await eventually(is_evaluated)
        await client.create(build_autoscaler(namespace, QUEUE))

        async def is_ambiguous() -> bool:
            condition = await read_condition(client, namespace, "ScalingActive")
            return condition.get("reason") == "AmbiguousSelector"

        await eventually(is_ambiguous)
    assert await read_replicas(client, namespace) == 2
    active = await read_condition(client, namespace, "ScalingActive")
    assert active["message"] == (
        "pods by selector app=web are controlled by more than one HPA "
        f"(e.g. [{{g {namespace}}} {{h {namespace}}}])"
    )


async def test_only_what_the_autoscaler_took_to_zero_comes_back(
    client: Client, namespace: str, transport: Transport, running: Running, eventually: Eventually
) -> None:
    metrics = Metrics(transport)
    metrics.external = "0"
    await deploy(client, namespace, 1)
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    autoscaler = build_autoscaler(namespace, QUEUE, minReplicas=0, behavior=behavior)
    async with running("deployment", "horizontal-pod-autoscaler", through=metrics):
        await client.create(autoscaler)

        async def is_at_zero() -> bool:
            condition = await read_condition(client, namespace, "ScaledToZero")
            return condition.get("status") == "True"

        await eventually(is_at_zero)
        assert await read_replicas(client, namespace) == 0
        metrics.external = "25"
    async with running("deployment", "horizontal-pod-autoscaler", through=metrics):

        async def is_back() -> bool:
            return await read_replicas(client, namespace) == 3

        await eventually(is_back)


async def test_what_people_scaled_to_zero_stays_there(
    client: Client, namespace: str, transport: Transport, running: Running, eventually: Eventually
) -> None:
    metrics = Metrics(transport)
    metrics.external = "25"
    await deploy(client, namespace, 0)
    async with running("deployment", "horizontal-pod-autoscaler", through=metrics):
        await client.create(build_autoscaler(namespace, QUEUE))

        async def is_disabled() -> bool:
            condition = await read_condition(client, namespace, "ScalingActive")
            return condition.get("reason") == "ScalingDisabled"

        await eventually(is_disabled)
    assert await read_replicas(client, namespace) == 0


async def test_a_target_of_an_unknown_kind_is_named(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    reference = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "name": "t"}
    async with running("horizontal-pod-autoscaler"):
        await client.create(build_autoscaler(namespace, scaleTargetRef=reference))

        async def is_unable() -> bool:
            return bool(await read_condition(client, namespace, "AbleToScale"))

        await eventually(is_unable)
    able = await read_condition(client, namespace, "AbleToScale")
    assert able["message"] == (
        "the HPA controller was unable to get the target's current scale: no matches for kind "
        '"Thing" in group "nowhere.example.com"'
    )
