from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.local.apiserver.caller import CONFIG_MAPS, Caller

from kubewright.local.apiserver.certificates import Certificates, ensure_certificates

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """An HTTPS webhook of this process that answers as the test says."""

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.received: list[dict[str, Any]] = []
        self.answer: Answer = lambda request: {"allowed": True}
        self.status = 200
        self.url = ""

    async def handle(self, http: web.Request) -> web.Response:
        review = await http.json()
        request = review["request"]
        self.received.append(request)
        response = {"uid": request["uid"], **self.answer(request)}
        return web.json_response({**review, "response": response}, status=self.status)

    def configure(self, **fields: Any) -> dict[str, Any]:
        """Return a configuration that asks this hook about new ConfigMaps."""
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        ca = base64.b64encode(self.certificates.ca).decode()
        hook = {
            "name": "hook.example.com",
            "clientConfig": {"url": self.url, "caBundle": ca},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [rule],
            **fields,
        }
        return {"metadata": {"name": "h"}, "webhooks": [hook]}


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    certificates = ensure_certificates(tmp_path / "hook", ["127.0.0.1"], datetime.now(UTC))
    hook = Hook(certificates)
    application = web.Application()
    application.router.add_post("/v", hook.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    context = certificates.tls_context()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}/v"
    yield hook
    await runner.cleanup()


async def configure(call: Caller, kind: str, configuration: dict[str, Any]) -> None:
    reply = await call("POST", CONFIGURATIONS.format(kind), configuration)
    assert reply.status == 201, reply.body


def patch(*operations: dict[str, Any]) -> Answer:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


BODY = {"metadata": {"name": "a"}}


async def test_a_denial_is_told_with_its_code_and_reason(call: Caller, hook: Hook) -> None:
    status = {"code": 409, "reason": "Conflict", "message": "not now"}
    hook.answer = lambda request: {"allowed": False, "status": status}
    await configure(call, "validating", hook.configure())
    reply = await call("POST", CONFIG_MAPS, BODY)
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    expected = 'admission webhook "hook.example.com" denied the request: not now'
    assert reply.body["message"] == expected
    assert (await call("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_a_patch_changes_what_is_stored(call: Caller, hook: Hook) -> None:
    hook.answer = patch({"op": "add", "path": "/data", "value": {"k": "hooked"}})
    await configure(call, "mutating", hook.configure())
    assert (await call("POST", CONFIG_MAPS, BODY)).body["data"] == {"k": "hooked"}


async def test_the_review_says_who_does_what(call: Caller, hook: Hook) -> None:
    await configure(call, "validating", hook.configure())
    await call("POST", f"{CONFIG_MAPS}?dryRun=All&fieldManager=m", BODY)
    (request,) = hook.received
    assert (request["operation"], request["name"], request["namespace"]) == (
        "CREATE",
        "a",
        "default",
    )
    assert request["userInfo"]["username"] == "kubernetes-admin"
    assert request["dryRun"] is True
    assert request["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "m",
    }
    assert request["object"]["metadata"]["uid"]


async def test_selectors_and_rules_spare_other_writes(call: Caller, hook: Hook) -> None:
    selecting = hook.configure(objectSelector={"matchLabels": {"guarded": "yes"}})
    await configure(call, "validating", selecting)
    await call("POST", CONFIG_MAPS, BODY)
    await call("POST", CONFIG_MAPS.replace("configmaps", "secrets"), BODY)
    assert hook.received == []
    await call("POST", CONFIG_MAPS, {"metadata": {"name": "b", "labels": {"guarded": "yes"}}})
    assert len(hook.received) == 1


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_failing_webhook_counts_as_its_policy_says(
    call: Caller, hook: Hook, policy: str, status: int
) -> None:
    hook.status = 500
    await configure(call, "validating", hook.configure(failurePolicy=policy))
    assert (await call("POST", CONFIG_MAPS, BODY)).status == status


async def test_a_webhook_that_is_not_there_fails_the_write(call: Caller, hook: Hook) -> None:
    service = {"namespace": "default", "name": "nope"}
    configuration = hook.configure(clientConfig={"service": service})
    await configure(call, "validating", configuration)
    reply = await call("POST", CONFIG_MAPS, BODY)
    assert reply.status == 500
    assert reply.body["message"].endswith('service "nope" not found')


async def test_a_hook_without_effects_on_dry_runs_is_asked_about_them(
    call: Caller, hook: Hook
) -> None:
    await configure(call, "validating", hook.configure(sideEffects="NoneOnDryRun"))
    assert (await call("POST", f"{CONFIG_MAPS}?dryRun=All", BODY)).status == 201
    assert len(hook.received) == 1


async def test_a_removed_configuration_asks_no_more(call: Caller, hook: Hook) -> None:
    hook.answer = lambda request: {"allowed": False}
    await configure(call, "validating", hook.configure())
    assert (await call("POST", CONFIG_MAPS, BODY)).status == 400
    await call("DELETE", CONFIGURATIONS.format("validating") + "/h")
    assert (await call("POST", CONFIG_MAPS, BODY)).status == 201


async def test_an_answer_to_another_question_is_a_failure(call: Caller, hook: Hook) -> None:
    hook.answer = lambda request: {"allowed": True, "uid": "other"}
    await configure(call, "validating", hook.configure())
    reply = await call("POST", CONFIG_MAPS, BODY)
    assert (reply.status, "expected response.uid" in reply.body["message"]) == (500, True)


async def test_a_match_condition_that_does_not_compile_is_refused(call: Caller, hook: Hook) -> None:
    pytest.importorskip("cel_expr_python")
    conditions = [{"name": "c", "expression": text} for text in ("object.x == 1", "1 +", "1")]
    body = hook.configure(matchConditions=conditions)
    reply = await call("POST", CONFIGURATIONS.format("validating"), body)
    causes = {c["field"]: c["message"] for c in reply.body["details"]["causes"]}
    place = "webhooks[0].matchConditions[{}].expression"
    assert causes.keys() == {place.format(1), place.format(2)}
    assert "compilation failed: ERROR: <input>:1:4" in causes[place.format(1)]
    assert causes[place.format(2)].endswith("must evaluate to bool but got int")


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (404, "the server could not find the requested resource"),
        (503, "the server is currently unable to handle the request"),
        (500, 'an error on the server ("unknown") has prevented the request from succeeding'),
    ],
)
async def test_a_webhook_that_answers_no_success_is_told_in_words(
    call: Caller, hook: Hook, status: int, problem: str
) -> None:
    hook.status = status
    await configure(call, "validating", hook.configure())
    reply = await call("POST", CONFIG_MAPS, BODY)
    assert reply.body["message"].endswith(f"failed to call webhook: {problem}")
