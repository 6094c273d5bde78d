"""The program of "Writing an operator" does what its page says."""

from __future__ import annotations

from typing import Any

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object, Resource
from kubewright.client.requests import PatchType
from kubewright.testing import Cluster, eventually
from tests.docs.pages import DOCS, run_page

PAGE = "writing-an-operator.md"


def build_shop(namespace: str, **spec: object) -> Object:
    return {
        "apiVersion": "shops.example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"image": "shop:1", **spec},
    }


def condition_of(shop: Object, type: str) -> str:
    """Return the message of a condition that is true; empty where it is not."""
    condition = find_condition((shop.get("status") or {}).get("conditions") or [], type)
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


async def get_shop(cluster: Cluster, program: Any) -> Object:
    shops = program.Shop.resource
    return await cluster.client.get(shops, "shop", namespace=cluster.namespace)


async def report(cluster: Cluster, resource: Resource, name: str, **status: object) -> None:
    """Report the status of a child, as its controller would."""
    await cluster.client.patch(
        resource,
        name,
        {"status": status},
        namespace=cluster.namespace,
        type=PatchType.MERGE,
        subresource="status",
    )


def read_promise() -> str:
    """Return the message that the page shows."""
    lines = (DOCS / PAGE).read_text().splitlines()
    return next(line for line in lines if line.startswith("hold back"))


async def test_the_shop_opens_when_its_migration_is_complete(cluster: Cluster) -> None:
    program = run_page(PAGE)
    await cluster.install(program.operator)
    async with cluster.run(program.operator):
        await cluster.client.create(build_shop(cluster.namespace))
        promise = read_promise().replace("default/", f"{cluster.namespace}/")
        started = "2026-11-28T00:00:00Z"

        async def is_made() -> bool:
            jobs = await cluster.client.list(builtin.JOB, namespace=cluster.namespace)
            return bool(jobs.items)

        await eventually(is_made)
        await report(cluster, builtin.JOB, "shop-migration", startTime=started, active=1)
        await eventually(
            lambda: get_shop(cluster, program),
            lambda shop: condition_of(shop, "Reconciling") == promise,
        )
        await report(
            cluster,
            builtin.JOB,
            "shop-migration",
            active=0,
            succeeded=1,
            completionTime=started,
            uncountedTerminatedPods={},
            conditions=[
                {"type": type, "status": "True", "reason": "Done", "lastTransitionTime": started}
                for type in ("SuccessCriteriaMet", "Complete")
            ],
        )
        await eventually(
            lambda: get_shop(cluster, program),
            lambda shop: (shop.get("status") or {}).get("address") == "shop.example.com",
        )


async def test_a_disk_does_not_shrink(cluster: Cluster) -> None:
    program = run_page(PAGE)
    await cluster.install(program.operator)
    async with cluster.run(program.operator):
        await cluster.client.create(build_shop(cluster.namespace, storage="2Gi"))
        await eventually(
            lambda: get_shop(cluster, program), lambda shop: condition_of(shop, "Reconciling") != ""
        )
        await cluster.client.patch(
            program.Shop.resource,
            "shop",
            {"spec": {"storage": "1Gi"}},
            namespace=cluster.namespace,
            type=PatchType.MERGE,
        )
        await eventually(
            lambda: get_shop(cluster, program),
            lambda shop: condition_of(shop, "Stalled") == "spec.storage: a disk cannot shrink",
        )
