"""Volumes that are folders of a node: who makes them, and when they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.local.controllers.objects import build_claim, build_volume

from kubewright.api.resource import Object
from kubewright.local.storage import local_volume

ASKED = {"volume.kubernetes.io/storage-provisioner": local_volume.NAME}
WAITING = local_volume.build_storage_class(default=True)
IMMEDIATE = {**WAITING, "volumeBindingMode": "Immediate"}
FOLDER = Path("/volumes/node-a")


def asked(node: str | None = "node-a", **spec: Any) -> Object:
    selected = {"volume.kubernetes.io/selected-node": node} if node else {}
    return build_claim(annotations={**ASKED, **selected}, **spec)


def made(claim: Object | None = None, storage_class: Object = WAITING) -> Object:
    return local_volume.build_volume(claim or asked(), storage_class, "node-a", FOLDER)


@pytest.mark.parametrize(
    ("claim", "storage_class", "expected"),
    [
        (asked(), WAITING, True),
        (asked("node-b"), WAITING, False),
        (asked(None), WAITING, False),
        (asked(None), IMMEDIATE, True),
        (asked(), {**WAITING, "provisioner": "example.com/p"}, False),
        (asked(volumeName="v"), WAITING, False),
        (build_claim(), WAITING, False),
    ],
)
def test_the_node_that_was_selected_makes_the_volume(
    claim: Object, storage_class: Object, expected: bool
) -> None:
    assert local_volume.is_asked(claim, storage_class, "node-a") is expected


def test_a_claim_that_ends_gets_no_volume() -> None:
    claim = asked()
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert not local_volume.is_asked(claim, WAITING, "node-a")


def test_a_volume_is_bound_to_its_claim_and_tied_to_its_node() -> None:
    volume = made()
    assert volume["metadata"]["name"] == "pvc-uid-data"
    assert volume["spec"]["local"] == {"path": "/volumes/node-a/pvc-uid-data_ns_data"}
    assert volume["spec"]["claimRef"]["uid"] == "uid-data"
    assert volume["metadata"]["finalizers"] == [local_volume.FINALIZER]
    assert local_volume.is_on(volume, "node-a")
    assert not local_volume.is_on(volume, "node-b")
    assert not local_volume.is_on(build_volume(), "node-a")
    retained = made(storage_class={**WAITING, "reclaimPolicy": "Retain"})
    assert "finalizers" not in retained["metadata"]


@pytest.mark.parametrize(
    "spec",
    [
        {"volumeMode": "Block"},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}},
    ],
)
def test_what_a_folder_cannot_be_is_refused(spec: Object) -> None:
    assert local_volume.find_refusal(asked()) == ""
    assert local_volume.find_refusal(asked(**spec))


@pytest.mark.parametrize(
    ("phase", "policy", "expected"),
    [
        ("Bound", "Delete", False),
        ("Available", "Delete", False),
        ("Released", "Retain", False),
        ("Released", "Delete", True),
        ("Failed", "Delete", True),
    ],
)
def test_only_a_released_volume_of_that_policy_goes(
    phase: str, policy: str, expected: bool
) -> None:
    volume = made()
    volume["spec"]["persistentVolumeReclaimPolicy"] = policy
    volume["status"] = {"phase": phase}
    assert local_volume.is_to_be_removed(volume) is expected
    assert local_volume.is_held_for_nothing(volume) is (policy == "Retain")


def test_growing_ends_with_what_was_asked_for() -> None:
    claim = asked(size="2Gi")
    claim["status"] = {
        "phase": "Bound",
        "capacity": {"storage": "1Gi"},
        "conditions": [{"type": "Unused"}, {"type": "Resizing"}],
    }
    grown = local_volume.build_grown_claim(claim)
    assert grown["status"]["capacity"] == {"storage": "2Gi"}
    assert grown["status"]["conditions"] == [{"type": "Unused"}]
    volume = local_volume.build_grown_volume(made(asked()), claim)
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}
