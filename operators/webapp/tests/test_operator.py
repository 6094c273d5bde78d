"""The operator in a cluster in memory: what it makes, mends, and leaves alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kubewright as kw
from kubewright import builtin
from kubewright.api.conditions import find_condition
from kubewright.client import PatchType
from kubewright.testing import Cluster, consistently, crash_points, eventually
from operators.webapp.tests.apps import read_dapr_definition, read_sample
from webapp_operator import Guestbook, MyApp, SimpleApp, operator
from webapp_operator.component import COMPONENT

KINDS: dict[str, kw.Resource] = {
    "simpleapp": SimpleApp.resource,
    "guestbook": Guestbook.resource,
    "myapp": MyApp.resource,
}
DEPLOYMENTS = {
    "simpleapp": "my-app",
    "guestbook": "guestbook-sample-deployment",
    "myapp": "my-app-deployment",
}
COMPONENTS = {"guestbook": "guestbook-sample-state", "myapp": "my-app-state"}


async def install_dapr(cluster: Cluster) -> None:
    await cluster.client.apply(read_dapr_definition(), field_manager="dapr")
    await eventually(lambda: cluster.client.list(COMPONENT), lambda found: True)


async def create(cluster: Cluster, sample: str) -> kw.Object:
    created: kw.Object = await cluster.client.create(read_sample(sample))
    return created


async def read(cluster: Cluster, resource: kw.Resource, name: str) -> kw.Object:
    return await cluster.client.get(resource, name, namespace="default")


async def patch(cluster: Cluster, resource: kw.Resource, name: str, change: kw.Object) -> None:
    await cluster.client.patch(resource, name, change, type=PatchType.MERGE, namespace="default")


async def read_app(cluster: Cluster, sample: str) -> kw.Object:
    name = read_sample(sample)["metadata"]["name"]
    return await read(cluster, KINDS[sample], name)


def has_condition(type: str, status: str, reason: str = "") -> Callable[[kw.Object], bool]:
    def check(obj: kw.Object) -> bool:
        found = find_condition((obj.get("status") or {}).get("conditions") or (), type)
        return bool(found and found["status"] == status and reason in ("", found["reason"]))

    return check


async def finish_rollout(cluster: Cluster, name: str) -> None:
    """Say of a Deployment what its controller would when all pods run."""
    deployment = await read(cluster, builtin.DEPLOYMENT, name)
    count = deployment["spec"]["replicas"]
    fields = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    status = dict.fromkeys(fields, count)
    status["observedGeneration"] = deployment["metadata"]["generation"]
    await cluster.client.patch(
        builtin.DEPLOYMENT,
        name,
        {"status": status},
        type=PatchType.MERGE,
        namespace="default",
        subresource="status",
    )


@pytest.mark.parametrize("sample", list(KINDS))
async def test_a_sample_becomes_ready_with_its_pods(cluster: Cluster, sample: str) -> None:
    await install_dapr(cluster)
    async with cluster.run(operator):
        await create(cluster, sample)
        await eventually(lambda: read(cluster, builtin.DEPLOYMENT, DEPLOYMENTS[sample]))
        await eventually(lambda: read_app(cluster, sample), has_condition("Reconciling", "True"))

        await finish_rollout(cluster, DEPLOYMENTS[sample])

        app = await eventually(lambda: read_app(cluster, sample), has_condition("Ready", "True"))
    assert (app["status"]["replicas"], app["status"]["readyReplicas"]) == (2, 2)
    assert app["status"]["observedGeneration"] == app["metadata"]["generation"]


@pytest.mark.parametrize("sample", list(COMPONENTS))
async def test_dapr_may_come_later(cluster: Cluster, sample: str) -> None:
    async with cluster.run(operator):
        await create(cluster, sample)
        app = await eventually(
            lambda: read_app(cluster, sample), has_condition("Ready", "False", "KindNotInstalled")
        )
        ready = find_condition(app["status"]["conditions"], "Ready") or {}
        assert "install its definition, components.dapr.io" in ready["message"]
        await finish_rollout(cluster, DEPLOYMENTS[sample])

        await install_dapr(cluster)

        await eventually(
            lambda: read_app(cluster, sample), has_condition("Ready", "True"), within=40
        )
    component = await read(cluster, COMPONENT, COMPONENTS[sample])
    assert component["metadata"]["ownerReferences"][0]["kind"] == KINDS[sample].kind


async def test_simple_apps_do_not_wait_for_dapr(cluster: Cluster) -> None:
    async with cluster.run(operator):
        await create(cluster, "simpleapp")
        await eventually(lambda: read(cluster, builtin.DEPLOYMENT, "my-app"))
        await finish_rollout(cluster, "my-app")

        await eventually(lambda: read_app(cluster, "simpleapp"), has_condition("Ready", "True"))


async def test_a_change_of_the_spec_reaches_the_children(cluster: Cluster) -> None:
    await install_dapr(cluster)
    async with cluster.run(operator):
        await create(cluster, "myapp")
        before = await eventually(lambda: read(cluster, builtin.DEPLOYMENT, "my-app-deployment"))
        change = {"replicas": 3, "image": "nginx:1.27", "dapr": {"appId": "new"}}
        await patch(cluster, MyApp.resource, "my-app", {"spec": change})

        after = await eventually(
            lambda: read(cluster, builtin.DEPLOYMENT, "my-app-deployment"),
            lambda found: found["spec"]["replicas"] == 3,
        )
        await eventually(
            lambda: read(cluster, COMPONENT, "my-app-state"),
            lambda found: found["scopes"] == ["new"],
        )
    template = after["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert template["metadata"]["annotations"]["dapr.io/app-id"] == "new"
    assert after["spec"]["selector"] == before["spec"]["selector"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize("sample", list(KINDS))
async def test_what_was_made_goes_with_its_owner(cluster: Cluster, sample: str) -> None:
    await install_dapr(cluster)
    async with cluster.run_controllers("garbage-collector"), cluster.run(operator):
        app = await create(cluster, sample)
        await eventually(lambda: read_app(cluster, sample), has_condition("Reconciling", "True"))

        name = app["metadata"]["name"]
        await cluster.client.delete(KINDS[sample], name, namespace="default")

        async def remains() -> list[kw.Object]:
            found: list[kw.Object] = []
            for resource in (builtin.DEPLOYMENT, COMPONENT):
                found += await cluster.client.list(resource, namespace="default")
            return found

        await eventually(remains, lambda found: not found)


@pytest.mark.parametrize("sample", list(KINDS))
async def test_the_number_that_scaling_changes_is_the_number_of_pods(
    cluster: Cluster, sample: str
) -> None:
    """A flaw of the published operator: its scale handler changed what nobody read."""
    await install_dapr(cluster)
    async with cluster.run(operator):
        app = await create(cluster, sample)
        await cluster.client.patch(
            KINDS[sample],
            app["metadata"]["name"],
            {"spec": {"replicas": 5}},
            type=PatchType.MERGE,
            namespace="default",
            subresource="scale",
        )

        await eventually(
            lambda: read(cluster, builtin.DEPLOYMENT, DEPLOYMENTS[sample]),
            lambda found: found["spec"]["replicas"] == 5,
        )


async def create_ready(cluster: Cluster, sample: str) -> None:
    await create(cluster, sample)
    await eventually(lambda: read(cluster, builtin.DEPLOYMENT, DEPLOYMENTS[sample]))
    await finish_rollout(cluster, DEPLOYMENTS[sample])
    await eventually(lambda: read_app(cluster, sample), has_condition("Ready", "True"))


async def test_a_second_process_finds_nothing_to_write(cluster: Cluster) -> None:
    await install_dapr(cluster)
    async with cluster.run(operator):
        for sample in KINDS:
            await create_ready(cluster, sample)
    before = count_writes(cluster)
    async with cluster.run(operator):
        await consistently(lambda: count_writes(cluster), lambda count: count == before)


async def test_a_second_process_without_dapr_finds_nothing_to_write_either(
    cluster: Cluster,
) -> None:
    async with cluster.run(operator):
        await create(cluster, "myapp")
        missing = has_condition("Stalled", "True", "KindNotInstalled")
        await eventually(lambda: read_app(cluster, "myapp"), missing)
        await finish_rollout(cluster, "my-app-deployment")
        await eventually(
            lambda: read_app(cluster, "myapp"), lambda app: app["status"]["readyReplicas"] == 2
        )
    before = count_writes(cluster)
    async with cluster.run(operator):
        await consistently(lambda: count_writes(cluster), lambda count: count == before)


def count_writes(cluster: Cluster) -> int:
    return sum(call.is_write for call in cluster.faults.traffic.calls)


async def test_what_others_say_of_the_pods_stays(cluster: Cluster) -> None:
    """`kubectl rollout restart` writes an annotation into the template: it must not be undone."""
    restart = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    async with cluster.run(operator):
        await create(cluster, "simpleapp")
        await eventually(lambda: read(cluster, builtin.DEPLOYMENT, "my-app"))
        change = {"spec": {"template": restart, "replicas": 7}}
        await patch(cluster, builtin.DEPLOYMENT, "my-app", change)

        back = await eventually(
            lambda: read(cluster, builtin.DEPLOYMENT, "my-app"),
            lambda found: found["spec"]["replicas"] == 2,
        )
    assert back["spec"]["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/restartedAt": "now"
    }


async def test_a_deployment_of_somebody_else_is_left_alone_and_told(cluster: Cluster) -> None:
    labels = {"app": "other"}
    other: kw.Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "my-app", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "other", "image": "other"}]},
            },
        },
    }
    made = await cluster.client.create(other)
    async with cluster.run(operator):
        await create(cluster, "simpleapp")
        taken = has_condition("Stalled", "True", "NameTaken")
        await eventually(lambda: read_app(cluster, "simpleapp"), taken)
        assert (await read(cluster, builtin.DEPLOYMENT, "my-app"))["spec"] == made["spec"]

        await cluster.client.delete(builtin.DEPLOYMENT, "my-app", namespace="default")

        await eventually(
            lambda: read(cluster, builtin.DEPLOYMENT, "my-app"),
            lambda found: found["metadata"]["uid"] != made["metadata"]["uid"],
        )


async def test_of_two_kinds_that_want_one_name_the_second_says_so(cluster: Cluster) -> None:
    book = read_sample("guestbook")
    book["metadata"]["name"] = "my-app"
    await install_dapr(cluster)
    async with cluster.run(operator):
        await create(cluster, "myapp")
        await eventually(lambda: read(cluster, COMPONENT, "my-app-state"))
        await cluster.client.create(book)

        second = await eventually(
            lambda: read(cluster, Guestbook.resource, "my-app"), has_condition("Stalled", "True")
        )
    ready = find_condition(second["status"]["conditions"], "Ready") or {}
    assert "it belongs to MyApp my-app" in ready["message"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("sample", "with_dapr"), [("simpleapp", False), ("guestbook", True), ("myapp", False)]
)
async def test_killed_at_any_request_it_ends_in_the_same_state(
    sample: str, with_dapr: bool
) -> None:
    replicas = {"replicas": 3, "image": "nginx:1.27"}

    async def given(cluster: Cluster) -> None:
        if with_dapr:
            await install_dapr(cluster)
        await create(cluster, sample)

    async def change(cluster: Cluster) -> None:
        name = read_sample(sample)["metadata"]["name"]
        await patch(cluster, KINDS[sample], name, {"spec": replicas})

    async def check(cluster: Cluster) -> None:
        deployment = await read(cluster, builtin.DEPLOYMENT, DEPLOYMENTS[sample])
        assert deployment["spec"]["replicas"] == 3
        if sample in COMPONENTS and with_dapr:
            await read(cluster, COMPONENT, COMPONENTS[sample])

    report = await crash_points(operator, change, given=given, check=check)

    report.verify()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sample", list(KINDS))
async def test_killed_at_any_request_of_the_creation_it_ends_in_the_same_state(
    sample: str,
) -> None:
    async def check(cluster: Cluster) -> None:
        await read(cluster, builtin.DEPLOYMENT, DEPLOYMENTS[sample])
        if sample in COMPONENTS:
            await read(cluster, COMPONENT, COMPONENTS[sample])

    async def act(cluster: Cluster) -> None:
        await create(cluster, sample)

    report = await crash_points(operator, act, given=install_dapr, check=check)

    report.verify()
