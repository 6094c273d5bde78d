from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import Caller

from kubewright.local.apiserver.pod_security import PREFIX, find_violations

NAMESPACE = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"
SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "securityContext": context or {}}
    spec = {"automountServiceAccountToken": False, "containers": [container], **spec}
    return {"metadata": {"name": "p"}, "spec": spec}


def host_path() -> dict[str, Any]:
    return {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (pod(hostNetwork=True, hostIPC=True), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (pod(**host_path()), 'hostPath volumes (volume "h")'),
        (
            pod({"privileged": True}),
            'privileged (container "c" must not set securityContext.privileged=true)',
        ),
        (
            pod({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}),
            (
                'non-default capabilities (container "c" must not include "SYS_ADMIN" in '
                "securityContext.capabilities.add)"
            ),
        ),
        (
            pod({"seccompProfile": {"type": "Unconfined"}}),
            (
                'seccompProfile (container "c" must not set securityContext.seccompProfile.type to '
                '"Unconfined")'
            ),
        ),
        (
            pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            pod({"seLinuxOptions": {"type": "x", "user": "u"}}),
            (
                'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: '
                'type "x"; user may not be set)'
            ),
        ),
        (
            pod({"procMount": "Unmasked"}),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
    ],
)
def test_baseline_names_what_a_pod_breaks(broken: dict[str, Any], finding: str) -> None:
    assert find_violations("baseline", broken) == [finding]
    assert find_violations("privileged", broken) == []


def test_restricted_asks_for_more_than_baseline() -> None:
    assert find_violations("baseline", pod()) == []
    reasons = [text.partition(" (")[0] for text in find_violations("restricted", pod())]
    assert reasons == [
        "allowPrivilegeEscalation != false",
        "unrestricted capabilities",
        "runAsNonRoot != true",
        "seccompProfile",
    ]
    assert find_violations("restricted", pod(SAFE)) == []


async def label(call: Caller, **labels: str) -> int:
    metadata = {"labels": {PREFIX + mode: level for mode, level in labels.items()}}
    reply = await call("PATCH", NAMESPACE, {"metadata": metadata}, content_type=MERGE)
    return reply.status


async def test_a_namespace_refuses_and_warns_as_its_labels_say(call: Caller) -> None:
    await call(
        "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}
    )
    assert await label(call, enforce="baseline", warn="restricted") == 200
    reply = await call("POST", f"{NAMESPACE}/pods", pod({"privileged": True}))
    assert reply.status == 403
    assert 'violates PodSecurity "baseline:latest": privileged' in reply.body["message"]
    reply = await call("POST", f"{NAMESPACE}/pods", pod())
    assert reply.status == 201
    assert "would violate PodSecurity" in reply.warnings[0]


async def test_raising_the_level_warns_of_pods_that_are_there(call: Caller) -> None:
    await call(
        "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}
    )
    await call("POST", f"{NAMESPACE}/pods", pod())
    body = {"metadata": {"labels": {f"{PREFIX}enforce": "restricted"}}}
    reply = await call("PATCH", NAMESPACE, body, content_type=MERGE)
    assert len(reply.warnings) == 2
    assert "p: allowPrivilegeEscalation != false" in reply.warnings[1]


async def test_refuses_levels_that_do_not_exist(call: Caller) -> None:
    assert await label(call, enforce="strict") == 422
    assert await label(call, **{"warn-version": "1.30"}) == 422
