from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import Caller, Reply

from kubewright.api.resource import Object
from kubewright.local.apiserver.pod_resize_validator import list_lacking

NAMESPACE = "/api/v1/namespaces/default"
STRATEGIC = "application/strategic-merge-patch+json"
SMALL = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}


@pytest.fixture
async def resize(call: Caller) -> Any:
    """Make a pod; return a function that resizes its container."""
    await call("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    containers = [{"name": "c", "image": "i", "resources": SMALL}]
    pod = {"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": containers}}
    await call("POST", f"{NAMESPACE}/pods", pod)

    async def patch(container: Object, **metadata: object) -> Reply:
        body = {"metadata": metadata, "spec": {"containers": [{"name": "c", **container}]}}
        return await call("PATCH", f"{NAMESPACE}/pods/p/resize", body, content_type=STRATEGIC)

    return patch


async def test_resources_change_and_nothing_else(resize: Any) -> None:
    changed = {"resources": {"limits": {"cpu": "300m"}}, "image": "other"}
    reply = await resize(changed, labels={"a": "2"})
    assert reply.status == 200
    container = reply.body["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}}
    assert container["image"] == "i"
    assert reply.body["metadata"]["labels"] == {"a": "1"}
    assert reply.body["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"limits": {"cpu": None}}, "resource limits cannot be removed"),
        ({"requests": {"cpu": "1"}}, "must be less than or equal to cpu limit"),
        ({"limits": {"ephemeral-storage": "1Gi"}}, "only cpu and memory resources are mutable"),
        (
            {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "1Gi"},
            },
            "Pod QOS Class may not change as a result of resizing",
        ),
    ],
)
async def test_resize_that_no_node_does_is_refused(
    resize: Any, resources: Object, message: str
) -> None:
    reply = await resize({"resources": resources})
    assert reply.status == 422
    assert message in reply.body["message"]


async def test_other_containers_are_refused(call: Caller, resize: Any) -> None:
    body = {"spec": {"containers": [{"name": "d", "image": "i"}]}}
    reply = await call("PATCH", f"{NAMESPACE}/pods/p/resize", body, content_type=STRATEGIC)
    assert reply.status == 422
    assert "containers may not be added or removed on resize" in reply.body["message"]


async def test_node_whose_containers_tell_no_resources_is_too_old(
    call: Caller, resize: Any
) -> None:
    running = {"name": "c", "state": {"running": {}}, "image": "i", "imageID": "", "ready": True}
    status = {"status": {"containerStatuses": [{**running, "restartCount": 0}]}}
    await call("PATCH", f"{NAMESPACE}/pods/p/status", status, content_type=STRATEGIC)
    reply = await resize({"resources": {"limits": {"cpu": "300m"}}})
    assert reply.status == 422
    assert "without support for resize" in reply.body["message"]


def test_lists_what_a_node_could_never_give() -> None:
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}}
    assert list_lacking(pod, {"cpu": "2", "memory": "2Gi"}) == [
        "cpu, requested: 3000, allocatable: 2000"
    ]
