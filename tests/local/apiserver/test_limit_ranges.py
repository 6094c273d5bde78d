from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import Caller

NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture
async def limited(call: Caller) -> Caller:
    await call("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "100m"},
            "max": {"cpu": "1"},
            "min": {"cpu": "50m"},
            "maxLimitRequestRatio": {"cpu": "10"},
        },
        {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}},
    ]
    body = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    assert (await call("POST", f"{NAMESPACE}/limitranges", body)).status == 201
    return call


def pod(**resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"automountServiceAccountToken": False, "containers": [container]}
    return {"metadata": {"name": "p"}, "spec": spec}


async def test_fills_in_what_a_container_leaves_out(limited: Caller) -> None:
    reply = await limited("POST", f"{NAMESPACE}/pods", pod())
    assert reply.body["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "100m"},
    }
    note = reply.body["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert note == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"limits": {"cpu": "2"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        (
            {"requests": {"cpu": "10m"}, "limits": {"cpu": "60m"}},
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            {"requests": {"cpu": "60m"}, "limits": {"cpu": "900m"}},
            "cpu max limit to request ratio per Container is 10, but provided ratio is 15",
        ),
    ],
)
async def test_refuses_what_lies_outside_the_bounds(
    limited: Caller, resources: dict[str, Any], message: str
) -> None:
    reply = await limited("POST", f"{NAMESPACE}/pods", pod(**resources))
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert reply.body["message"].startswith(f'pods "p" is forbidden: {message}')


async def test_bounds_claims(limited: Caller) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    claim = {"metadata": {"name": "c"}, "spec": spec}
    reply = await limited("POST", f"{NAMESPACE}/persistentvolumeclaims", claim)
    assert reply.status == 403
    assert reply.body["message"].endswith("is 2Gi, but request is 5Gi")
