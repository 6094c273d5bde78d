"""Wrong objects of a custom kind get the words of kube-apiserver 1.37.2.

`data/wrong_fleets.json` holds a definition and, for each case, what is sent and what the real
server answered: the status, and the causes as field, reason and message, or the message where there
are none. The real server reports causes in no fixed order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.local.apiserver.caller import Caller
from tests.local.apiserver.test_definitions import CRDS, is_established

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "data/wrong_fleets.json").read_text())
FLEETS = "/apis/example.com/v1/namespaces/default/fleets"
APPLY = "application/apply-patch+yaml"
BETA = "/apis/example.com/v1beta1/namespaces/default/fleets"


@pytest.fixture
async def fleets(call: Caller) -> Caller:
    assert (await call("POST", CRDS, CASES["definition"])).status == 201
    watch = await call.answer("GET", f"{CRDS}?watch=1&timeoutSeconds=5")
    assert any(map(is_established, await call.read(watch, 9, is_established)))
    return call


def fleet(spec: Any, version: str = "v1") -> dict[str, Any]:
    metadata = {"name": "f"}
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Fleet",
        "metadata": metadata,
        "spec": spec,
    }


def told(status: int, body: dict[str, Any]) -> tuple[int, Any]:
    causes = (body.get("details") or {}).get("causes")
    if status >= 400 and not causes:
        return status, body["message"]
    found = [[c.get("field", ""), c["reason"], c["message"]] for c in causes or ()]
    return status, sorted(found, key=lambda cause: (cause[0], cause[2]))


async def test_creating_wrong_objects(fleets: Caller) -> None:
    different = []
    for label, spec, status, expected in CASES["created"]:
        path = f"{FLEETS}?dryRun=All&fieldValidation=Strict"
        answer = await fleets("POST", path, fleet(spec))
        if told(answer.status, answer.body) != (status, expected):
            different.append((label, told(answer.status, answer.body), (status, expected)))
    assert different == []


async def test_applying_wrong_objects(fleets: Caller) -> None:
    different = []
    for label, spec, status, expected in CASES["applied"]:
        path = f"{FLEETS}/f?dryRun=All&fieldManager=x"
        answer = await fleets("PATCH", path, fleet(spec), content_type=APPLY)
        if told(answer.status, answer.body) != (status, expected):
            different.append((label, told(answer.status, answer.body), (status, expected)))
    assert different == []


async def test_a_status_that_is_dropped_is_defaulted_again(fleets: Caller) -> None:
    created = await fleets("POST", FLEETS, fleet({"size": 1}) | {"status": {"phase": "Ready"}})
    assert created.body["status"] == {"phase": "Pending"}


async def test_a_version_shows_no_defaults_of_fields_that_it_lacks(fleets: Caller) -> None:
    created = await fleets("POST", BETA, fleet({"size": 1}, "v1beta1"))
    assert created.body["spec"] == {"size": 1, "mode": "slow"}
    read = await fleets("GET", f"{FLEETS}/f")
    assert read.body["spec"] == {"size": 1, "mode": "slow", "newer": True}
    assert (await fleets("GET", f"{BETA}/f")).body["spec"] == {"size": 1, "mode": "slow"}
