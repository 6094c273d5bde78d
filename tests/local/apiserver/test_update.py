from __future__ import annotations

from typing import Any

from tests.local.apiserver.caller import CONFIG_MAPS, Caller, Reply

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"app": "x"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def test_a_stale_version_is_a_conflict(call: Caller) -> None:
    first = await call.config_map("a")
    await call("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, content_type=MERGE)
    reply = await call("PUT", f"{CONFIG_MAPS}/a", first)
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")


async def test_a_write_that_changes_nothing_keeps_the_version(call: Caller) -> None:
    created = await call.config_map("a", data={"k": "v"})
    revision = call.running.server.store.revision
    for method, body in (("PUT", created), ("PATCH", {"data": {"k": "v"}})):
        reply = await call(method, f"{CONFIG_MAPS}/a", body, content_type=_type(method))
        assert reply.body == created
    assert call.running.server.store.revision == revision


def _type(method: str) -> str:
    return MERGE if method == "PATCH" else "application/json"


async def test_generation_follows_the_spec_alone(call: Caller) -> None:
    await call("POST", DEPLOYMENTS, deployment())
    labelled = {"metadata": {"labels": {"x": "y"}}}
    steps: list[tuple[str, Any, int]] = [
        ("", {"spec": {"replicas": 3}}, 2),
        ("", labelled, 2),
        ("/status", {"status": {"replicas": 3}}, 2),
        ("", {"spec": {"paused": True}}, 3),
    ]
    for path, patch, generation in steps:
        reply = await call("PATCH", f"{DEPLOYMENTS}/a{path}", patch, content_type=MERGE)
        assert reply.status == 200, reply.body
        assert reply.body["metadata"]["generation"] == generation


async def test_status_and_spec_are_written_apart(call: Caller) -> None:
    await call("POST", DEPLOYMENTS, deployment(replicas=1))
    both = {"spec": {"replicas": 5}, "status": {"replicas": 5}}
    main = await call("PATCH", f"{DEPLOYMENTS}/a", both, content_type=MERGE)
    assert (main.body["spec"]["replicas"], main.body["status"]) == (5, {})
    both["spec"]["replicas"] = 9
    status = await call("PATCH", f"{DEPLOYMENTS}/a/status", both, content_type=MERGE)
    assert (status.body["spec"]["replicas"], status.body["status"]) == (5, {"replicas": 5})


async def test_put_creates_only_the_kinds_that_allow_it(call: Caller) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    reply = await call("PUT", f"{leases}/a", {"metadata": {"name": "a"}})
    assert reply.status == 201
    reply = await call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}})
    assert reply.status == 404


async def test_the_last_finalizer_takes_the_object_along(call: Caller) -> None:
    await call.config_map("a", metadata={"finalizers": ["e.com/f"]})
    deleted = await call("DELETE", f"{CONFIG_MAPS}/a")
    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == 0
    removed = await call(
        "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    assert removed.status == 200
    assert "finalizers" not in removed.body["metadata"]
    assert (await call("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_apply_creates_then_owns(call: Caller) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"k": "1"},
    }
    target = f"{CONFIG_MAPS}/a?fieldManager=one"
    apply = "application/apply-patch+yaml"
    assert (await call("PATCH", target, config, content_type=apply)).status == 201
    other = {**config, "data": {"k": "2"}}
    conflict = await call("PATCH", f"{CONFIG_MAPS}/a?fieldManager=two", other, content_type=apply)
    assert conflict.status == 409
    assert conflict.body["details"]["causes"][0]["field"] == ".data.k"
    forced = await call(
        "PATCH", f"{CONFIG_MAPS}/a?fieldManager=two&force=true", other, content_type=apply
    )
    assert forced.body["data"] == {"k": "2"}


async def test_scale_reads_and_writes_replicas(call: Caller) -> None:
    await call("POST", DEPLOYMENTS, deployment(replicas=2))
    scale = await call("GET", f"{DEPLOYMENTS}/a/scale")
    assert scale.body["spec"] == {"replicas": 2}
    assert scale.body["status"] == {"replicas": 0, "selector": "app=x"}
    await call("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    assert (await call("GET", f"{DEPLOYMENTS}/a")).body["spec"]["replicas"] == 4


async def test_a_signing_request_is_approved_once_and_for_ever(call: Caller) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": "eA==", "signerName": "example.com/s", "usages": ["client auth"]}
    await call("POST", path, {"metadata": {"name": "r"}, "spec": spec})
    merge = "application/merge-patch+json"

    async def decide(*conditions: dict[str, str]) -> Reply:
        body = {"status": {"conditions": list(conditions)}}
        return await call("PATCH", f"{path}/r/approval", body, content_type=merge)

    approved = {"type": "Approved", "status": "True", "reason": "Known"}
    denied = {"type": "Denied", "status": "True"}
    assert (await decide({**approved, "status": "False"})).status == 422
    assert (await decide(approved, denied)).status == 422
    reply = await decide(approved)
    assert reply.status == 200
    assert reply.body["status"]["conditions"][0]["lastUpdateTime"]
    assert "may not remove" in (await decide()).body["message"]
