"""Gates: what comes after one waits for what is before it; deletions go the other way round."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.child_kind import ChildKind, build_children
from kubewright.runtime.desired import Action, Step, plan_children
from kubewright.runtime.gate import STAGE, Gate, compute_gate
from kubewright.runtime.operator import Operator
from tests.runtime.conftest import Running, eventually
from tests.runtime.pools import Pool, build_deployment, build_pool
from tests.runtime.test_desired import MANAGER, OWNER, by_key, config_map, live_of

KINDS = {kind.gvk: ChildKind(kind) for kind in (builtin.CONFIG_MAP, builtin.JOB)}


def build(*desired: Object | Gate) -> list[Object]:
    return [*build_children(OWNER, desired, KINDS, manager=MANAGER).values()]


def plan(desired: list[Object], live: list[Object]) -> list[Step]:
    return plan_children(OWNER, by_key(desired), by_key(live), KINDS, manager=MANAGER)


def names(steps: list[Step]) -> list[tuple[Action, str]]:
    return [(step.action, step.key.name) for step in steps]


def alive(obj: Object) -> Object:
    live = live_of(obj)
    annotations: Object = {f"f:{key}": {} for key in obj["metadata"].get("annotations") or {}}
    if annotations:
        entry = live["metadata"]["managedFields"][0]
        entry["fieldsV1"]["f:metadata"]["f:annotations"] = annotations
    return live


def test_children_after_a_gate_carry_their_stage() -> None:
    first, second, third = build(config_map("a"), Gate(), config_map("b"), Gate(), config_map("c"))
    assert "annotations" not in first["metadata"]
    assert second["metadata"]["annotations"] == {STAGE: "1"}
    assert third["metadata"]["annotations"] == {STAGE: "2"}


def test_what_comes_after_a_gate_waits_for_what_is_missing_before_it() -> None:
    desired = build(config_map("a"), Gate(), config_map("b"))
    steps = plan(desired, [])
    assert names(steps) == [(Action.CREATE, "a"), (Action.HOLD, "b")]
    assert str(steps[1]) == (
        "hold back ConfigMap default/b: ConfigMap a comes first: it does not exist"
    )
    assert names(plan(desired, [alive(desired[0])])) == [(Action.CREATE, "b")]
    assert plan(desired, [alive(desired[0]), alive(desired[1])]) == []


def test_a_gate_waits_for_readiness_and_names_what_is_missing() -> None:
    desired = build(config_map("a"), Gate(), config_map("b"))
    waiting = alive(desired[0])
    waiting["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "soon"}]}
    (step,) = plan(desired, [waiting])
    assert (step.action, step.reason) == (Action.HOLD, "ConfigMap a comes first: soon")


def test_what_stands_behind_a_closed_gate_is_left_as_it_is() -> None:
    desired = build(config_map("a", x="2"), Gate(), config_map("b", x="2"))
    before = [alive(obj) for obj in build(config_map("a", x="1"), Gate(), config_map("b", x="1"))]
    assert names(plan(desired, before)) == [(Action.APPLY, "a"), (Action.HOLD, "b")]


def test_nothing_is_deleted_while_a_gate_is_closed() -> None:
    old = alive(build(config_map("old"))[0])
    desired = build(config_map("new"), Gate(), config_map("user"))
    steps = plan(desired, [old])
    assert names(steps) == [(Action.CREATE, "new"), (Action.HOLD, "user"), (Action.HOLD, "old")]
    assert names(plan(desired, [old, *map(alive, desired)])) == [(Action.DELETE, "old")]


def test_what_came_last_is_deleted_first_and_awaited() -> None:
    first, second = (alive(obj) for obj in build(config_map("a"), Gate(), config_map("b")))
    assert names(plan([], [first, second])) == [(Action.HOLD, "a"), (Action.DELETE, "b")]
    ending = copy.deepcopy(second)
    ending["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
    assert names(plan([], [first, ending])) == [(Action.HOLD, "a")]
    assert names(plan([], [first])) == [(Action.DELETE, "a")]


def test_a_job_opens_a_gate_by_its_end() -> None:
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate"},
        "status": {"startTime": "2026-11-28T00:00:00Z"},
    }
    assert compute_gate(job).message == "it is not complete"
    job["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    assert compute_gate(job).is_ready


def test_a_claim_that_waits_for_its_first_pod_keeps_no_gate_closed() -> None:
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}}
    assert compute_gate(claim).is_ready
    assert compute_gate({**claim, "status": {"phase": "Pending"}}).is_ready
    assert not compute_gate({**claim, "status": {"phase": "Lost"}}).is_ready
    ending = {**claim, "metadata": {"deletionTimestamp": "2026-11-28T00:00:00Z"}}
    assert not compute_gate(ending).is_ready


def build_staged(*, ordered: bool = False) -> Operator:
    operator = Operator("staged")
    owns = [builtin.DEPLOYMENT, builtin.CONFIG_MAP]

    @operator.desired(Pool, owns=owns, ordered_deletion=ordered)
    def children(pool: Pool) -> Iterable[Object | Gate]:
        yield build_deployment(pool)
        yield Gate()
        yield config_map("after", word=pool.spec.word)

    return operator


async def set_ready(client: Client, namespace: str) -> None:
    """Report the Deployment's pods ready, as its controller would."""
    obj = await client.get(builtin.DEPLOYMENT, "pool", namespace=namespace)
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), 1)
    status = {"observedGeneration": obj["metadata"]["generation"], **counts}
    await client.patch(
        builtin.DEPLOYMENT,
        "pool",
        {"status": status},
        type=PatchType.MERGE,
        namespace=namespace,
        subresource="status",
    )


async def exists(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    try:
        await client.get(resource, name, namespace=namespace)
    except NotFound:
        return False
    return True


async def message_of(client: Client, namespace: str, type: str = "Reconciling") -> str:
    pool = await client.get(Pool.resource, "pool", namespace=namespace)
    conditions = (pool.get("status") or {}).get("conditions") or []
    condition = find_condition(conditions, type)
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


async def test_the_status_says_what_is_waited_for(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_staged()
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        expected = (
            f"hold back ConfigMap {namespace}/after: Deployment pool comes first: "
            "its controller has not seen it yet"
        )

        async def says_so() -> bool:
            return await message_of(client, namespace) == expected

        await eventually(says_so)
        assert not await exists(client, builtin.CONFIG_MAP, "after", namespace)
        await set_ready(client, namespace)
        await eventually(lambda: exists(client, builtin.CONFIG_MAP, "after", namespace))

        async def is_ready() -> bool:
            return await message_of(client, namespace, "Ready") == "all children are ready"

        await eventually(is_ready)


async def test_an_ordered_deletion_goes_back_stage_by_stage(
    client: Client, namespace: str, running: Running
) -> None:
    operator = build_staged(ordered=True)
    await operator.ensure_crds(client)
    await client.create(build_pool(namespace))
    async with running(operator):
        await eventually(lambda: exists(client, builtin.DEPLOYMENT, "pool", namespace))
        await set_ready(client, namespace)
        await eventually(lambda: exists(client, builtin.CONFIG_MAP, "after", namespace))
        # Somebody keeps the last child for a while.
        held = [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/held"]}]
        await client.patch(
            builtin.CONFIG_MAP, "after", held, type=PatchType.JSON, namespace=namespace
        )
        await client.delete(Pool.resource, "pool", namespace=namespace)

        async def is_ending() -> bool:
            obj = await client.get(builtin.CONFIG_MAP, "after", namespace=namespace)
            return "deletionTimestamp" in obj["metadata"]

        await eventually(is_ending)
        assert await exists(client, builtin.DEPLOYMENT, "pool", namespace)
        assert await exists(client, Pool.resource, "pool", namespace)
        released = [{"op": "remove", "path": "/metadata/finalizers"}]
        await client.patch(
            builtin.CONFIG_MAP, "after", released, type=PatchType.JSON, namespace=namespace
        )

        async def is_over() -> bool:
            left = [
                await exists(client, resource, "pool", namespace)
                for resource in (builtin.DEPLOYMENT, Pool.resource)
            ]
            return not any(left)

        await eventually(is_over)
