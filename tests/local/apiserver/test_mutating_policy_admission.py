from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import CONFIG_MAPS, Caller

pytest.importorskip("cel_expr_python")

GROUP = "/apis/admissionregistration.k8s.io/v1"


def applying(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patching(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(name: str, *mutations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    rule = {
        "apiGroups": ["", "apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps", "deployments"],
    }
    constraints = {"resourceRules": [rule]}
    wanted = {"matchConstraints": constraints, "reinvocationPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {**wanted, "mutations": list(mutations), **spec}}


async def enforce(call: Caller, name: str, *mutations: dict[str, Any], **spec: Any) -> None:
    body = policy(name, *mutations, **spec)
    reply = await call("POST", f"{GROUP}/mutatingadmissionpolicies", body)
    assert reply.status == 201, reply.body
    body = {"metadata": {"name": name}, "spec": {"policyName": name}}
    reply = await call("POST", f"{GROUP}/mutatingadmissionpolicybindings", body)
    assert reply.status == 201, reply.body


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_changes_follow_one_another(call: Caller) -> None:
    await enforce(
        call,
        "p",
        applying("Object{data: {'y': variables.x + '!'}}"),
        patching("[JSONPatch{op: 'copy', from: '/data/y', path: '/data/z'}]"),
        variables=[{"name": "x", "expression": "object.data.x"}],
    )
    created = await call("POST", CONFIG_MAPS, config("a", x="1"))
    assert created.body["data"] == {"x": "1", "y": "1!", "z": "1!"}


async def test_lists_are_merged_by_their_keys(call: Caller) -> None:
    path = "Object.spec.template.spec"
    containers = f"[{path}.containers{{name: 'side', image: 'j'}}]"
    template = f"Object.spec.template{{spec: {path}{{containers: {containers}}}}}"
    await enforce(call, "p", applying(f"Object{{spec: Object.spec{{template: {template}}}}}"))
    labels = {"a": "b"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    body = {"metadata": {"name": "d"}, "spec": spec}
    created = await call("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    found = created.body["spec"]["template"]["spec"]["containers"]
    assert [(c["name"], c["imagePullPolicy"]) for c in found] == [
        ("c", "Always"),
        ("side", "Always"),
    ]


@pytest.mark.parametrize(
    ("mutation", "problem"),
    [
        (applying("Object{data: {'y': object.nope}}"), "resulted in error: no such key: nope"),
        (
            applying("Object{spec: Object.spec{nope: 1}}"),
            (
                "error applying patch: failed to convert patch object to typed object: "
                ".spec: field not declared in schema"
            ),
        ),
        (
            patching("[JSONPatch{op: 'replace', path: '/no/such', value: 1}]"),
            (
                "JSON Patch: replace operation does not apply: doc is missing path: /no/such: "
                "missing value"
            ),
        ),
    ],
)
async def test_a_change_that_fails_refuses_the_write(
    call: Caller, mutation: dict[str, Any], problem: str
) -> None:
    await enforce(call, "p", mutation)
    reply = await call("POST", CONFIG_MAPS, config("a"))
    assert (reply.status, reply.body["reason"]) == (403, "Invalid")
    assert reply.body["message"].startswith("policy 'p' with binding 'p' denied request: ")
    assert reply.body["message"].endswith(problem)


async def test_what_is_one_value_is_not_merged(call: Caller) -> None:
    selector = "Object.spec.selector{matchLabels: {'c': 'd'}}"
    await enforce(call, "p", applying(f"Object{{spec: Object.spec{{selector: {selector}}}}}"))
    body = {"metadata": {"name": "d"}, "spec": {}}
    reply = await call("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    assert reply.body["message"].endswith("atomic arrays, maps or structs: .spec.selector")


async def test_a_failure_that_is_ignored_leaves_the_object_as_it_was(call: Caller) -> None:
    await enforce(call, "p", applying("Object{data: {'y': object.nope}}"), failurePolicy="Ignore")
    assert (await call("POST", CONFIG_MAPS, config("a", x="1"))).body["data"] == {"x": "1"}


async def test_a_patch_whose_test_fails_is_left_out(call: Caller) -> None:
    tested = "[JSONPatch{op: 'test', path: '/data/x', value: 'other'}, "
    tested += "JSONPatch{op: 'add', path: '/data/y', value: 'y'}]"
    key = "[JSONPatch{op: 'add', path: '/metadata/labels', value: "
    key += "{jsonpatch.escapeKey('a/b').replace('~1', '-'): 'c'}}]"
    await enforce(call, "p", patching(tested), patching(key))
    created = (await call("POST", CONFIG_MAPS, config("a", x="1"))).body
    assert (created["data"], created["metadata"]["labels"]) == ({"x": "1"}, {"a-b": "c"})


async def test_conditions_spare_other_writes(call: Caller) -> None:
    conditions = [{"name": "c", "expression": "object.metadata.name == 'a'"}]
    await enforce(call, "p", applying("Object{data: {'y': 'z'}}"), matchConditions=conditions)
    assert (await call("POST", CONFIG_MAPS, config("a"))).body["data"] == {"y": "z"}
    assert "data" not in (await call("POST", CONFIG_MAPS, config("b"))).body


async def test_a_policy_that_asks_for_it_sees_later_changes(call: Caller) -> None:
    copying = "Object{data: {'seen': 'late' in object.data ? 'yes' : 'no'}}"
    await enforce(call, "a", applying(copying), reinvocationPolicy="IfNeeded")
    await enforce(call, "b", applying("Object{data: {'late': 'x'}}"))
    created = await call("POST", CONFIG_MAPS, config("a", x="1"))
    assert created.body["data"] == {"x": "1", "late": "x", "seen": "yes"}


async def test_mistakes_in_a_policy_are_told(call: Caller) -> None:
    body = policy(
        "p",
        {"patchType": "Odd"},
        {"patchType": "JSONPatch"},
        applying("'text'"),
        patching("1 +"),
        reinvocationPolicy="Some",
    )
    reply = await call("POST", f"{GROUP}/mutatingadmissionpolicies", body)
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == [
        "spec.mutations[0].patchType",
        "spec.mutations[1].jsonPatch",
        "spec.mutations[2].applyConfiguration.expression",
        "spec.mutations[3].jsonPatch.expression",
        "spec.reinvocationPolicy",
    ]


async def test_a_binding_names_its_policy(call: Caller) -> None:
    body = {"metadata": {"name": "b"}, "spec": {}}
    reply = await call("POST", f"{GROUP}/mutatingadmissionpolicybindings", body)
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == ["spec.policyName"]
