from __future__ import annotations

import asyncio
from typing import Any

from tests.local.apiserver.caller import CONFIG_MAPS, Caller

NAMESPACE = "/api/v1/namespaces/default"
QUOTAS = f"{NAMESPACE}/resourcequotas"


async def limit(call: Caller, hard: dict[str, str], **spec: Any) -> None:
    await call("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    assert (await call("POST", QUOTAS, body)).status == 201


def pod(name: str, **resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"automountServiceAccountToken": False, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_counts_objects_and_refuses_one_too_many(call: Caller) -> None:
    await limit(call, {"configmaps": "1"})
    assert (await call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})).status == 201
    reply = await call("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
    assert reply.status == 403
    assert reply.body["message"] == (
        'configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, '
        "used: configmaps=1, limited: configmaps=1"
    )
    status = (await call("GET", f"{QUOTAS}/q")).body["status"]
    assert status == {"hard": {"configmaps": "1"}, "used": {"configmaps": "1"}}


async def test_what_a_deletion_frees_can_be_taken_again(call: Caller) -> None:
    await limit(call, {"count/configmaps": "1"})
    await call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await call("DELETE", f"{CONFIG_MAPS}/a")
    assert (await call("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})).status == 201


async def test_writes_at_the_same_time_do_not_exceed_together(call: Caller) -> None:
    await limit(call, {"configmaps": "3"})
    names = [{"metadata": {"name": f"c{number}"}} for number in range(8)]
    replies = await asyncio.gather(*(call("POST", CONFIG_MAPS, body) for body in names))
    assert sorted(reply.status for reply in replies) == [201] * 3 + [403] * 5


async def test_pods_must_tell_what_is_limited(call: Caller) -> None:
    await limit(call, {"requests.cpu": "1", "limits.memory": "1Gi"})
    reply = await call("POST", f"{NAMESPACE}/pods", pod("p", requests={"cpu": "1"}))
    assert reply.body["message"] == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c'
    )
    full = {"requests": {"cpu": "600m"}, "limits": {"memory": "1Mi"}}
    assert (await call("POST", f"{NAMESPACE}/pods", pod("p", **full))).status == 201
    reply = await call("POST", f"{NAMESPACE}/pods", pod("o", **full))
    assert "requested: requests.cpu=600m, used: requests.cpu=600m" in reply.body["message"]


async def test_a_scope_narrows_what_is_counted(call: Caller) -> None:
    await limit(call, {"pods": "0"}, scopes=["BestEffort"])
    burst = pod("burst", requests={"cpu": "1m"})
    assert (await call("POST", f"{NAMESPACE}/pods", burst)).status == 201
    assert (await call("POST", f"{NAMESPACE}/pods", pod("best"))).status == 403


async def test_dry_run_counts_without_writing(call: Caller) -> None:
    await limit(call, {"configmaps": "1"})
    reply = await call("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert reply.status == 201
    assert "used" not in (await call("GET", f"{QUOTAS}/q")).body["status"]


async def test_refuses_scopes_that_it_does_not_know(call: Caller) -> None:
    expressions = [
        {"scopeName": "Nope", "operator": "Exists"},
        {"scopeName": "Terminating", "operator": "NotIn", "values": ["x"]},
    ]
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": expressions}}
    reply = await call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    assert reply.status == 422
    fields = [cause["field"] for cause in reply.body["details"]["causes"]]
    assert fields == [
        "spec.scopeSelector.matchExpressions.scopeName",
        "spec.scopeSelector.matchExpressions.operator",
    ]


async def test_a_deadline_moves_a_pod_into_another_scope(call: Caller) -> None:
    await limit(call, {"pods": "0"}, scopes=["Terminating"])
    assert (await call("POST", f"{NAMESPACE}/pods", pod("p"))).status == 201
    body = {"spec": {"activeDeadlineSeconds": 5}}
    merge = "application/merge-patch+json"
    reply = await call("PATCH", f"{NAMESPACE}/pods/p", body, content_type=merge)
    assert reply.status == 403
