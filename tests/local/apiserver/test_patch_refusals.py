"""A patch that makes an object of wrong types is refused in the words of its kind of patch."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.caller import Caller

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def deployed(call: Caller) -> Caller:
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    }
    reply = await call("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    assert reply.status == 201
    return call


@pytest.mark.parametrize(
    ("spec", "shown", "problem"),
    [
        ({"replicas": "many"}, "map[replicas:many]", "unrecognized type: int32"),
        ({"replicas": 1.5}, "map[replicas:1.5]", "cannot convert float64 to int32"),
        ({"paused": "yes"}, "map[paused:yes]", "unrecognized type: bool"),
        ({"strategy": {"type": True}}, "map[strategy:map[type:true]]", "unrecognized type: string"),
        ({"selector": "all"}, "map[selector:all]", "cannot restore struct from: string"),
    ],
)
async def test_a_strategic_merge_shows_the_patch_and_what_cannot_be_converted(
    deployed: Caller, spec: Any, shown: str, problem: str
) -> None:
    reply = await deployed("PATCH", f"{DEPLOYMENTS}/web", {"spec": spec}, content_type=STRATEGIC)

    assert reply.status == 422
    assert reply.body["message"].endswith(f'patch: Invalid value: "map[spec:{shown}]": {problem}')


async def test_a_merge_patch_shows_the_object_and_what_cannot_be_decoded(deployed: Caller) -> None:
    patch = {"spec": {"replicas": "many"}}
    reply = await deployed("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=MERGE)

    assert reply.status == 422
    assert (
        "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas"
        in (reply.body["message"])
    )
