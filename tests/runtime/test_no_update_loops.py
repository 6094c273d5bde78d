"""What was applied is not applied again: for real kinds, with all that a server makes of them."""

from __future__ import annotations

import copy
import uuid

import pytest

from kubewright.api.resource import GroupVersionKind, Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import ChildKind, build_children, child_key
from kubewright.runtime.desired import Step, plan_children
from tests.runtime.kinds_of_children import CHILDREN
from tests.runtime.pools import build_pool

MANAGER = "loop-operator"


async def build_one(client: Client, namespace: str, obj: Object) -> tuple[Object, Object]:
    """Complete a child for an owner, and apply it; return what is desired and what is there."""
    owner = {**build_pool(namespace), "metadata": {"name": "pool", "namespace": namespace}}
    owner["metadata"]["uid"] = str(uuid.uuid4())
    kinds = {GroupVersionKind.of(obj): ChildKind(await client.mapper.resource_of(obj))}
    (desired,) = build_children(owner, [obj], kinds, manager=MANAGER).values()
    live = await client.apply(desired, field_manager=MANAGER)
    return desired, live


async def plan(client: Client, desired: Object, live: Object) -> list[Step]:
    """Plan as a new process would: with no memory of what it applied."""
    (reference,) = desired["metadata"]["ownerReferences"]
    owner = {
        "apiVersion": reference["apiVersion"],
        "kind": reference["kind"],
        "metadata": {"name": reference["name"], "uid": reference["uid"]},
    }
    kinds = {GroupVersionKind.of(desired): ChildKind(await client.mapper.resource_of(desired))}
    key = child_key(desired)
    return plan_children(owner, {key: desired}, {key: live}, kinds, manager=MANAGER)


def without_version(obj: Object) -> Object:
    hidden = ("resourceVersion", "generation", "managedFields")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in hidden}
    return {**obj, "metadata": metadata}


@pytest.fixture
async def accounts(client: Client, namespace: str) -> None:
    """Give the namespace what a controller would, where none runs."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }
    await client.apply(account)


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("name", CHILDREN)
async def test_a_second_plan_is_empty(client: Client, namespace: str, name: str) -> None:
    desired, live = await build_one(client, namespace, copy.deepcopy(CHILDREN[name]))
    assert [str(step) for step in await plan(client, desired, live)] == []
    # Nor would it have changed anything. The real server gives some a new version all the same.
    again = await client.apply(desired, field_manager=MANAGER)
    assert without_version(again) == without_version(live)


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("name", CHILDREN)
async def test_what_others_add_is_left_and_what_they_change_is_seen(
    client: Client, namespace: str, name: str
) -> None:
    desired, live = await build_one(client, namespace, copy.deepcopy(CHILDREN[name]))
    resource = await client.mapper.resource_of(desired)

    async def label(key: str, value: str) -> Object:
        patch: Object = {"metadata": {"labels": {key: value}}}
        return await client.patch(resource, "web", patch, namespace=namespace, type=PatchType.MERGE)

    live = await label("added", "by-another")
    assert await plan(client, desired, live) == []
    live = await label("app.kubernetes.io/managed-by", "another")
    assert [str(step.reason) for step in await plan(client, desired, live)] == ["it differs"]
