"""An operator on kinds of others: its functions get dicts, and their status stays theirs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import MANAGED_BY
from kubewright.runtime.children import Children
from kubewright.runtime.context import Context
from kubewright.runtime.operator import Operator
from kubewright.runtime.result import Result
from tests.runtime.conftest import Running, config_map_names, eventually
from tests.runtime.recording import RecordingTransport

RESOURCE_QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")


def build_quota(namespace: Object) -> Object:
    name = namespace["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "default", "namespace": name},
        "spec": {"hard": {"pods": "10"}},
    }


def build_operator(label: str) -> Operator:
    operator = Operator("quota-operator")

    @operator.desired(builtin.NAMESPACE, owns=[RESOURCE_QUOTA])
    def children(namespace: Object) -> Iterable[Object]:
        if label in (namespace["metadata"].get("labels") or {}):
            yield build_quota(namespace)

    return operator


async def test_children_of_a_built_in_kind_come_and_go(
    client: Client, namespace: str, running: Running, transport: RecordingTransport
) -> None:
    label = f"quota-{uuid.uuid4().hex[:8]}"
    operator = build_operator(label)
    assert operator.crds() == []

    async def set_label(value: str | None) -> None:
        patch: Object = {"metadata": {"labels": {label: value}}}
        await client.patch(builtin.NAMESPACE, namespace, patch, type=PatchType.MERGE)

    async def has_quota() -> bool:
        try:
            found = await client.get(RESOURCE_QUOTA, "default", namespace=namespace)
        except NotFound:
            return False
        assert found["metadata"]["labels"][MANAGED_BY] == "quota-operator"
        return True

    async def has_none() -> bool:
        return not await has_quota()

    async with running(operator):
        await set_label("yes")
        await eventually(has_quota)
        await set_label(None)
        await eventually(has_none)
    paths = [write.path for write in transport.writes]
    assert not [path for path in paths if path.endswith("/status")]


async def test_a_built_in_kind_can_be_finalized_and_reconciled(
    client: Client, namespace: str, running: Running
) -> None:
    operator, seen = Operator("copier"), []

    @operator.reconcile(builtin.SECRET, owns=[builtin.CONFIG_MAP])
    async def copy(secret: Object, ctx: Context) -> Result | None:
        if secret["metadata"]["name"] == "source":
            name = {"name": "copy", "namespace": namespace}
            await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name})
        return None

    @operator.finalize(builtin.SECRET)
    async def clean_up(secret: Object, ctx: Context) -> Result | None:
        seen.append(secret["metadata"]["name"])
        return None

    metadata = {"name": "source", "namespace": namespace}
    await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    async with running(operator):

        async def is_copied() -> bool:
            return await config_map_names(client, namespace) == ["copy"]

        await eventually(is_copied)
        secret = await client.get(builtin.SECRET, "source", namespace=namespace)
        assert secret["metadata"]["finalizers"] == ["kubewright.dev/copier"]
        await client.delete(builtin.SECRET, "source", namespace=namespace)

        async def is_gone() -> bool:
            found = await client.list(builtin.SECRET, namespace=namespace)
            return "source" not in [obj["metadata"]["name"] for obj in found]

        await eventually(is_gone)
    assert seen == ["source"]


async def test_a_status_is_written_only_as_the_function_says_it(
    client: Client, namespace: str, running: Running
) -> None:
    operator = Operator("balancer")

    @operator.status(builtin.SERVICE)
    def status(service: Object, children: Children) -> Object:
        if service["spec"].get("type") != "LoadBalancer":
            return {}
        return {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}

    for name, kind in (("balanced", "LoadBalancer"), ("plain", "ClusterIP")):
        spec = {"type": kind, "ports": [{"port": 80}]}
        metadata = {"name": name, "namespace": namespace}
        await client.create(
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        )
    async with running(operator):

        async def has_address() -> bool:
            found = await client.get(builtin.SERVICE, "balanced", namespace=namespace)
            ingress = found["status"]["loadBalancer"].get("ingress") or []
            return [item["ip"] for item in ingress] == ["192.0.2.1"]

        await eventually(has_address)
    plain = await client.get(builtin.SERVICE, "plain", namespace=namespace)
    assert plain["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize("raw", [b"{}", b'{"kind": "ConfigMap", "apiVersion": "v1"}'])
def test_a_resource_decodes_its_objects_with_their_type(raw: bytes) -> None:
    assert builtin.CONFIG_MAP.decode(raw) == {"apiVersion": "v1", "kind": "ConfigMap"}
    assert builtin.CONFIG_MAP.resource is builtin.CONFIG_MAP
