from __future__ import annotations

from typing import Any

from tests.local.apiserver.caller import Caller

PODS = "/api/v1/namespaces/default/pods?dryRun=All"
CLASS = {
    "metadata": {"name": "fast"},
    "handler": "h",
    "overhead": {"podFixed": {"cpu": "100m"}},
    "scheduling": {"nodeSelector": {"fast": "yes"}, "tolerations": [{"key": "k"}]},
}


async def create_pod(call: Caller, **spec: Any) -> Any:
    account = {"metadata": {"name": "default"}}
    await call.answer("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    await call.answer("POST", "/apis/node.k8s.io/v1/runtimeclasses", CLASS)
    containers = [{"name": "c", "image": "i"}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}
    return (await call("POST", PODS, body)).body


async def test_a_pod_gets_what_its_class_says(call: Caller) -> None:
    pod = await create_pod(call, runtimeClassName="fast", nodeSelector={"own": "1"})
    assert pod["spec"]["overhead"] == {"cpu": "100m"}
    assert pod["spec"]["nodeSelector"] == {"own": "1", "fast": "yes"}
    assert {"key": "k"} in pod["spec"]["tolerations"]


async def test_a_class_that_is_not_there_is_refused(call: Caller) -> None:
    answer = await create_pod(call, runtimeClassName="nothing")
    assert answer["code"] == 403
    assert 'pod rejected: RuntimeClass "nothing" not found' in answer["message"]


async def test_a_pod_that_contradicts_its_class_is_refused(call: Caller) -> None:
    answer = await create_pod(call, runtimeClassName="fast", nodeSelector={"fast": "no"})
    assert "conflict: runtimeClass.scheduling.nodeSelector[fast] = yes" in answer["message"]
    answer = await create_pod(call, runtimeClassName="fast", overhead={"cpu": "1"})
    assert "doesn't match RuntimeClass's defined Overhead" in answer["message"]


async def test_an_overhead_needs_a_class(call: Caller) -> None:
    answer = await create_pod(call, overhead={"cpu": "1"})
    assert "Overhead set without corresponding RuntimeClass" in answer["message"]
