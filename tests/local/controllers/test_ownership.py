from __future__ import annotations

from tests.local.controllers.objects import build_pod, build_replica_set

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.ownership import (
    build_adoption,
    build_release,
    plan_ownership,
)

OWNER = build_replica_set()
SELECTOR = LabelSelector.of({"matchLabels": {"app": "web"}})


def plan(pod: Object, owner: Object = OWNER) -> str:
    ownership = plan_ownership(owner, SELECTOR, [pod])
    for name in ("owned", "adopt", "release"):
        if getattr(ownership, name):
            return name
    return "nothing"


def test_claims_by_controller_and_selector() -> None:
    mine = build_owner_reference(OWNER)
    other = {**mine, "uid": "other"}
    assert plan(build_pod(owner=mine)) == "owned"
    assert plan(build_pod()) == "adopt"
    assert plan(build_pod(owner=mine, labels={"app": "debug"})) == "release"
    assert plan(build_pod(owner=other)) == "nothing"
    assert plan(build_pod(labels={"app": "debug"})) == "nothing"


def test_does_not_adopt_what_is_ending() -> None:
    assert plan(build_pod(deleting=True)) == "nothing"


def test_an_owner_that_goes_neither_adopts_nor_releases() -> None:
    leaving = build_replica_set()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    mine = build_owner_reference(leaving)
    assert plan(build_pod(), leaving) == "nothing"
    assert plan(build_pod(owner=mine, labels={}), leaving) == "nothing"
    assert plan(build_pod(owner=mine), leaving) == "owned"


def test_patches_name_the_very_object() -> None:
    pod = build_pod()
    assert build_adoption(OWNER, pod)["metadata"]["uid"] == "uid-p"
    assert build_release(OWNER, pod)["metadata"]["ownerReferences"] == [
        {"$patch": "delete", "uid": "uid-web"}
    ]
