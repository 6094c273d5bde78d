from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.local.apiserver.caller import CONFIG_MAPS, Caller

from kubewright.local.apiserver import ServerOptions, User, serve
from kubewright.local.apiserver.exchange import ANONYMOUS

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALICE = User("alice", ("devs", "system:authenticated"))


@pytest.fixture
async def guarded() -> AsyncIterator[Caller]:
    options = ServerOptions(listening=False, authorization="RBAC")
    async with serve(options) as running:
        yield Caller(running)


async def grant(call: Caller, *rules: dict[str, Any], kind: str = "User") -> None:
    role = {"metadata": {"name": "r"}, "rules": list(rules)}
    assert (await call("POST", f"{RBAC}/namespaces/default/roles", role)).status == 201
    name = {"User": "alice", "Group": "devs"}[kind]
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}],
    }
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await call("POST", path, binding)).status == 201


def rule(*verbs: str, resources: str = "configmaps", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resources], "verbs": list(verbs), **more}


async def test_nothing_is_allowed_without_a_grant(guarded: Caller) -> None:
    reply = await guarded("GET", CONFIG_MAPS, user=ALICE)
    assert reply.status == 403


@pytest.mark.parametrize("kind", ["User", "Group"])
async def test_a_binding_allows_what_its_role_says(guarded: Caller, kind: str) -> None:
    await grant(guarded, rule("list"), kind=kind)
    assert (await guarded("GET", CONFIG_MAPS, user=ALICE)).status == 200
    assert (await guarded("GET", f"{CONFIG_MAPS}/a", user=ALICE)).status == 403
    elsewhere = CONFIG_MAPS.replace("default", "kube-system")
    assert (await guarded("GET", elsewhere, user=ALICE)).status == 403


async def test_a_removed_binding_ends_the_grant(guarded: Caller) -> None:
    await grant(guarded, rule("list"))
    await guarded("DELETE", f"{RBAC}/namespaces/default/rolebindings/r")
    assert (await guarded("GET", CONFIG_MAPS, user=ALICE)).status == 403


async def test_a_name_counts_in_selectors_too(guarded: Caller) -> None:
    await grant(guarded, rule("get", "list", resourceNames=["one"]))
    assert (await guarded("GET", f"{CONFIG_MAPS}/one", user=ALICE)).status == 404
    assert (await guarded("GET", f"{CONFIG_MAPS}/two", user=ALICE)).status == 403
    assert (await guarded("GET", CONFIG_MAPS, user=ALICE)).status == 403
    selected = f"{CONFIG_MAPS}?fieldSelector=metadata.name=one"
    assert (await guarded("GET", selected, user=ALICE)).status == 200


async def test_subresources_need_their_own_grant(guarded: Caller) -> None:
    await grant(guarded, rule("get", resources="pods/log"))
    pod = "/api/v1/namespaces/default/pods/x"
    assert (await guarded("GET", f"{pod}/log", user=ALICE)).status == 404
    assert (await guarded("GET", pod, user=ALICE)).status == 403


async def test_an_apply_that_creates_needs_create(guarded: Caller) -> None:
    await grant(guarded, rule("patch"))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    target = f"{CONFIG_MAPS}/a?fieldManager=m"
    apply = "application/apply-patch+yaml"
    refused = await guarded("PATCH", target, config, user=ALICE, content_type=apply)
    assert (refused.status, "cannot create" in refused.body["message"]) == (403, True)


async def test_nobody_acts_as_an_administrator_unless_allowed(guarded: Caller) -> None:
    reply = await guarded(
        "GET",
        CONFIG_MAPS,
        user=ALICE,
        impersonate_user="admin",
        impersonate_group="system:masters",
    )
    assert reply.status == 403
    assert 'cannot impersonate resource "users"' in reply.body["message"]


async def test_discovery_and_health_are_public_as_bootstrapped(guarded: Caller) -> None:
    assert (await guarded("GET", "/apis", user=ALICE)).status == 200
    assert (await guarded("GET", "/apis", user=ANONYMOUS)).status == 403
    assert (await guarded("GET", "/healthz", user=ANONYMOUS)).status == 200


async def test_rules_reviews_tell_what_is_held(guarded: Caller) -> None:
    await grant(guarded, rule("list"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    reply = await guarded("POST", path, {"spec": {"namespace": "default"}}, user=ALICE)
    assert rule("list") in reply.body["status"]["resourceRules"]


async def test_rules_reviews_tell_an_administrator_what_bindings_say(guarded: Caller) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await guarded("POST", path, {"spec": {"namespace": "default"}})).body["status"]

    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert status["resourceRules"].count(everything) == 1
    urls = [url for rule in status["nonResourceRules"] for url in rule["nonResourceURLs"]]
    assert {"*", "/healthz", "/openapi/*"} <= set(urls)


async def test_nobody_grants_more_than_he_holds(guarded: Caller) -> None:
    roles = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"],
        "verbs": ["create"],
    }
    await grant(guarded, rule("get"), roles)
    path = f"{RBAC}/namespaces/default/roles"
    same = {"metadata": {"name": "same"}, "rules": [rule("get")]}
    assert (await guarded("POST", path, same, user=ALICE)).status == 201
    more = {"metadata": {"name": "more"}, "rules": [rule("get", "delete")]}
    reply = await guarded("POST", path, more, user=ALICE)
    assert reply.status == 403
    assert reply.body["message"].endswith(
        '\n{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
    )


async def test_binding_a_role_grants_what_it_holds(guarded: Caller) -> None:
    group = "rbac.authorization.k8s.io"
    own = {"apiGroups": [group], "resources": ["rolebindings"], "verbs": ["create"]}
    await grant(guarded, own)
    path = f"{RBAC}/namespaces/default/rolebindings"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": []}
    assert (await guarded("POST", path, body, user=ALICE)).status == 403
    body["roleRef"] = {**reference, "kind": "Role", "name": "none"}
    assert (await guarded("POST", path, body, user=ALICE)).status == 404
    body["roleRef"] = {**reference, "kind": "Role", "name": "r"}
    assert (await guarded("POST", path, body, user=ALICE)).status == 201


async def test_a_labelled_role_joins_the_aggregated_one(guarded: Caller) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": reference["apiGroup"], "kind": "User", "name": "alice"}
    body = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    await guarded("POST", f"{RBAC}/namespaces/default/rolebindings", body)
    pods = "/api/v1/namespaces/default/pods"
    assert (await guarded("GET", pods, user=ALICE)).status == 200
    secrets = "/api/v1/namespaces/default/secrets"
    assert (await guarded("GET", secrets, user=ALICE)).status == 403
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    role = {
        "metadata": {"name": "secret-view", "labels": labels},
        "rules": [rule("list", resources="secrets")],
    }
    assert (await guarded("POST", f"{RBAC}/clusterroles", role)).status == 201
    assert (await guarded("GET", secrets, user=ALICE)).status == 200
