from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import CONFIG_MAPS, Caller

pytest.importorskip("cel_expr_python")

GROUP = "/apis/admissionregistration.k8s.io/v1"


async def enforce(
    call: Caller, *validations: dict[str, Any], actions: tuple[str, ...] = ("Deny",), **spec: Any
) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec}
    body = {"metadata": {"name": "p"}, "spec": policy}
    reply = await call("POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert reply.status == 201, reply.body
    binding: dict[str, Any] = {"policyName": "p", "validationActions": list(actions)}
    if "paramKind" in spec:
        binding["paramRef"] = {
            "name": "limits",
            "namespace": "default",
            "parameterNotFoundAction": "Deny",
        }
    body = {"metadata": {"name": "b"}, "spec": binding}
    reply = await call("POST", f"{GROUP}/validatingadmissionpolicybindings", body)
    assert reply.status == 201, reply.body


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_denies_with_the_reason_and_message_of_the_policy(call: Caller) -> None:
    validation = {
        "expression": "size(variables.names) < 2",
        "messageExpression": "'has ' + string(size(variables.names))",
        "reason": "Forbidden",
    }
    variables = [{"name": "names", "expression": "object.data.map(k, k)"}]
    await enforce(call, validation, variables=variables)
    assert (await call("POST", CONFIG_MAPS, config("a", x="1"))).status == 201
    reply = await call("POST", CONFIG_MAPS, config("b", x="1", y="2"))
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert reply.body["message"] == (
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
        "request: has 2"
    )


async def test_warns_where_the_binding_says_so(call: Caller) -> None:
    await enforce(call, {"expression": "false", "message": "never"}, actions=("Warn",))
    reply = await call("POST", CONFIG_MAPS, config("a"))
    assert reply.status == 201
    assert "with binding 'b': never" in reply.warnings[0]


async def test_parameters_come_from_the_cluster(call: Caller) -> None:
    await call("POST", CONFIG_MAPS, config("limits", max="1"))
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    conditions = [{"name": "n", "expression": "object.metadata.name != 'exempt'"}]
    validation = {"expression": "size(object.data) <= int(params.data.max)"}
    await enforce(call, validation, paramKind=kind, matchConditions=conditions)
    assert (await call("POST", CONFIG_MAPS, config("a", x="1"))).status == 201
    assert (await call("POST", CONFIG_MAPS, config("b", x="1", y="2"))).status == 422
    assert (await call("POST", CONFIG_MAPS, config("exempt", x="1", y="2"))).status == 201
    await call("DELETE", f"{CONFIG_MAPS}/limits")
    reply = await call("POST", CONFIG_MAPS, config("c", x="1"))
    assert "no params found" in reply.body["message"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 422), ("Ignore", 201)])
async def test_an_expression_that_fails_counts_as_the_policy_says(
    call: Caller, policy: str, status: int
) -> None:
    await enforce(call, {"expression": "object.data.missing == ''"}, failurePolicy=policy)
    assert (await call("POST", CONFIG_MAPS, config("a", x="1"))).status == status


@pytest.mark.parametrize("expression", ["1 +", "authorizer.group('').check('get').allowed()"])
async def test_refuses_expressions_that_it_cannot_evaluate(call: Caller, expression: str) -> None:
    spec = {
        "matchConstraints": {"resourceRules": []},
        "validations": [{"expression": expression}],
    }
    body = {"metadata": {"name": "p"}, "spec": spec}
    reply = await call("POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "spec.validations[0].expression"
