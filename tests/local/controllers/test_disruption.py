"""Budgets and evictions together, on an API server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.kubelet import Kubelet
from tests.local.controllers.objects import build_deployment

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound, TooManyRequests
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType

BUDGET = builtin.POD_DISRUPTION_BUDGET


def build_budget(namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def evict(client: Client, namespace: str, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    await client.request("POST", path, body=eviction)


async def read_status(client: Client, namespace: str) -> Object:
    budget = await client.get(BUDGET, "p", namespace=namespace)
    return dict(budget.get("status") or {})


async def test_evictions_never_take_more_than_the_budget_allows(
    client: Client, namespace: str, running: Running, kubelet: Kubelet, eventually: Eventually
) -> None:
    deployment = build_deployment(4)
    deployment["metadata"] = {"name": "web", "namespace": namespace}
    async with running("*"):
        await client.create(deployment)
        await client.create(build_budget(namespace, maxUnavailable="25%"))

        async def is_healthy() -> bool:
            status = await read_status(client, namespace)
            return (status.get("currentHealthy"), status["disruptionsAllowed"]) == (4, 1)

        await eventually(is_healthy)
        kubelet.held = True
        kubelet.watch_availability()
        refused = []
        for entry in kubelet.pods.list():
            try:
                await evict(client, namespace, entry.meta.name)
            except TooManyRequests as error:
                refused.append(error)
        assert len(refused) == 3
        assert kubelet.fewest is not None
        assert kubelet.fewest >= 3
        kubelet.release()
        await eventually(is_healthy)


async def test_a_controller_of_any_kind_is_asked_by_its_scale(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    group = f"{namespace}.example.com"
    await client.create(build_definition(group, scale=True))
    widgets = Resource(group, "v1", "Widget", "widgets")
    owner = await create_widget(client, widgets, namespace, eventually)
    await create_bare_pod(client, namespace)
    reference = {**build_owner_reference(owner), "controller": True}
    owned = {"metadata": {"ownerReferences": [reference]}}
    await client.patch(builtin.POD, "a", owned, type=PatchType.MERGE, namespace=namespace)
    async with running("disruption"):
        await client.create(build_budget(namespace, maxUnavailable=1))

        async def is_counted() -> bool:
            status = await read_status(client, namespace)
            return (status["expectedPods"], status["desiredHealthy"]) == (3, 2)

        await eventually(is_counted)


async def test_a_controller_without_scale_makes_the_budget_fail_and_say_so(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    group = f"{namespace}.example.com"
    await client.create(build_definition(group, scale=False))
    widgets = Resource(group, "v1", "Widget", "widgets")
    owner = await create_widget(client, widgets, namespace, eventually)
    await create_bare_pod(client, namespace)
    reference = {**build_owner_reference(owner), "controller": True}
    owned = {"metadata": {"ownerReferences": [reference]}}
    await client.patch(builtin.POD, "a", owned, type=PatchType.MERGE, namespace=namespace)
    async with running("disruption"):
        await client.create(build_budget(namespace, minAvailable="50%"))

        async def has_failed() -> bool:
            conditions = (await read_status(client, namespace)).get("conditions") or []
            return bool(conditions) and conditions[0]["reason"] == "SyncFailed"

        await eventually(has_failed)
        condition = find_condition(
            (await read_status(client, namespace))["conditions"], "DisruptionAllowed"
        )
        assert condition is not None
        assert condition["message"] == f"widgets.{group} does not implement the scale subresource"
        # A count of the pods themselves asks no controller, and heals the budget.
        await client.patch(
            BUDGET,
            "p",
            {"spec": {"minAvailable": 1}},
            type=PatchType.MERGE,
            namespace=namespace,
        )

        async def has_healed() -> bool:
            conditions = (await read_status(client, namespace))["conditions"]
            return bool(conditions[0]["reason"] == "InsufficientPods")

        await eventually(has_healed)


async def test_a_pod_of_two_budgets_is_reported(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await create_bare_pod(client, namespace)
    async with running("disruption"):
        for name in ("p", "q"):
            budget = build_budget(namespace, minAvailable=0)
            budget["metadata"]["name"] = name
            await client.create(budget)

        async def is_told() -> bool:
            events = await client.list(builtin.CORE_EVENT, namespace=namespace)
            return any(
                event["reason"] == "MultiplePodDisruptionBudgets"
                and event["involvedObject"]["name"] == "a"
                for event in events.items
            )

        await eventually(is_told)


async def create_widget(
    client: Client, widgets: Resource, namespace: str, eventually: Eventually
) -> Object:
    """Create a widget as soon as its definition is served."""
    client.mapper.add(widgets)
    widget: Object = {
        "apiVersion": widgets.api_version,
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": namespace},
        "spec": {"replicas": 3},
    }

    async def is_created() -> bool:
        try:
            await client.create(widget)
        except NotFound:
            return False
        return True

    await eventually(is_created)
    return await client.get(widgets, "w", namespace=namespace)


async def create_bare_pod(client: Client, namespace: str) -> None:
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create({**account, "metadata": {"name": "default", "namespace": namespace}})
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
        }
    )


def build_definition(group: str, *, scale: bool) -> Object:
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
        },
    }
    if scale:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"scale": paths}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@pytest.mark.parametrize("policy", ["IfHealthyBudget", "AlwaysAllow"])
async def test_a_pod_that_is_not_ready_goes_as_the_policy_says(
    client: Client, namespace: str, running: Running, eventually: Eventually, policy: str
) -> None:
    await create_bare_pod(client, namespace)
    phase = {"status": {"phase": "Running"}}
    await client.patch(
        builtin.POD, "a", phase, type=PatchType.MERGE, namespace=namespace, subresource="status"
    )
    async with running("disruption"):
        budget = build_budget(namespace, minAvailable=1, unhealthyPodEvictionPolicy=policy)
        await client.create(budget)

        async def is_seen() -> bool:
            return (await read_status(client, namespace)).get("observedGeneration") == 1

        await eventually(is_seen)
        if policy == "AlwaysAllow":
            await evict(client, namespace, "a")
            return
        with pytest.raises(TooManyRequests) as refusal:
            await evict(client, namespace, "a")
        assert refusal.value.details is not None
        assert refusal.value.details.causes[0].message == (
            "The disruption budget p needs 1 healthy pods and has 0 currently"
        )
