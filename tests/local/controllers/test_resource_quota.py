"""The resource quota controller on an API server."""

from __future__ import annotations

from tests.local.controllers.conftest import Eventually, Running
from tests.local.controllers.test_disruption import build_definition, create_widget

from kubewright.api import builtin
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType

QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")


def build_quota(namespace: str, **hard: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": hard},
    }


def build_config_map(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def read_used(client: Client, namespace: str) -> dict[str, str]:
    quota = await client.get(QUOTA, "q", namespace=namespace)
    return dict((quota.get("status") or {}).get("used") or {})


async def test_a_quota_counts_what_was_there_and_what_goes(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    async with running("resourcequota"):
        for name in ("a", "b"):
            await client.create(build_config_map(namespace, name))
        await client.create(build_quota(namespace, configmaps="2"))

        async def is_full() -> bool:
            return await read_used(client, namespace) == {"configmaps": "2"}

        await eventually(is_full)
        await client.delete(builtin.CONFIG_MAP, "a", namespace=namespace)

        async def has_room() -> bool:
            return await read_used(client, namespace) == {"configmaps": "1"}

        await eventually(has_room)


async def test_usage_that_drifted_is_counted_anew_with_the_limits(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    await client.create(build_config_map(namespace, "a"))
    await client.create(build_quota(namespace, configmaps="2"))
    wrong = {"status": {"hard": {"configmaps": "2"}, "used": {"configmaps": "7"}}}
    await client.patch(
        QUOTA, "q", wrong, type=PatchType.MERGE, namespace=namespace, subresource="status"
    )
    async with running("resourcequota"):

        async def is_right() -> bool:
            return await read_used(client, namespace) == {"configmaps": "1"}

        await eventually(is_right)
        more = {"spec": {"hard": {"configmaps": None, "count/secrets": "1"}}}
        await client.patch(QUOTA, "q", more, type=PatchType.MERGE, namespace=namespace)

        async def is_new() -> bool:
            return await read_used(client, namespace) == {"count/secrets": "0"}

        await eventually(is_new)


async def test_custom_resources_are_counted(
    client: Client, namespace: str, running: Running, eventually: Eventually
) -> None:
    group = f"{namespace}.example.com"
    await client.create(build_definition(group, scale=False))
    widgets = Resource(group, "v1", "Widget", "widgets")
    await create_widget(client, widgets, namespace, eventually)
    name = f"count/widgets.{group}"
    async with running("resourcequota"):
        await client.create(build_quota(namespace, **{name: "1"}))

        async def is_counted() -> bool:
            return await read_used(client, namespace) == {name: "1"}

        await eventually(is_counted)
        await client.delete(widgets, "w", namespace=namespace)

        async def is_free() -> bool:
            return await read_used(client, namespace) == {name: "0"}

        await eventually(is_free)
