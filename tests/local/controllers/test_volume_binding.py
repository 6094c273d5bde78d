"""How claims and volumes find each other, from what they say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import build_claim, build_pod, build_volume

from kubewright.api.resource import Object
from kubewright.local.controllers.persistent_volume import binding
from kubewright.local.controllers.persistent_volume.claim_plan import (
    Bind,
    ClaimStep,
    Lose,
    Provision,
    SetClass,
    Surroundings,
    Wait,
    plan_claim,
)
from kubewright.local.controllers.persistent_volume.matching import find_volume
from kubewright.local.controllers.persistent_volume.protection import (
    build_condition,
    holds,
    mounts,
)
from kubewright.local.controllers.persistent_volume.volume_plan import (
    Fail,
    Release,
    RemoveFolder,
    SetPhase,
    TellMismatch,
    Unbind,
    needs_check,
    plan_reclaim,
    plan_volume,
)
from kubewright.local.storage.claim import find_default_class

COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
OURS = {"pv.kubernetes.io/bound-by-controller": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "node-a"}
REFERENCE = {"namespace": "ns", "name": "data"}
BOUND = {**REFERENCE, "uid": "uid-data"}
OTHER = {**REFERENCE, "uid": "uid-before"}


def build_class(
    name: str = "c", *, waits: bool = False, default: bool = False, **fields: Any
) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    metadata = {"name": name, "annotations": annotations, **fields}
    return {"metadata": metadata, "provisioner": "example.com/p", "volumeBindingMode": mode}


def plan(
    claim: Object, *volumes: Object, classes: list[Object] | None = None, pods: tuple[str, ...] = ()
) -> ClaimStep:
    known = classes or []
    named = {volume["metadata"]["name"]: volume for volume in volumes}
    by_name = {c["metadata"]["name"]: c for c in known}
    around = Surroundings(lambda: volumes, lambda: known, named.get, by_name.get, lambda: pods)
    return plan_claim(claim, around)


def chosen(claim: Object, *volumes: Object, waits: bool = False) -> str | None:
    volume = find_volume(claim, volumes, waits=waits)
    return None if volume is None else str(volume["metadata"]["name"])


def test_the_smallest_volume_that_will_do_is_taken() -> None:
    volumes = [build_volume("large", "10Gi"), build_volume("fit", "5Gi"), build_volume("small")]
    assert chosen(build_claim(size="2Gi"), *volumes) == "fit"
    assert chosen(build_claim(size="20Gi"), *volumes) is None


def test_a_volume_with_fewer_access_modes_comes_first() -> None:
    many = build_volume("many", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    assert chosen(build_claim(), many, build_volume("one", "2Gi")) == "one"
    assert chosen(build_claim(accessModes=["ReadOnlyMany"]), many) == "many"


@pytest.mark.parametrize(
    ("volume", "claim"),
    [
        (build_volume(storageClassName="other"), build_claim()),
        (build_volume(storageClassName=""), build_claim()),
        (build_volume(volumeMode="Block"), build_claim()),
        (build_volume(), build_claim(accessModes=["ReadWriteMany"])),
        (build_volume(phase="Pending"), build_claim()),
        (build_volume(phase="Released", claimRef=OTHER), build_claim()),
        (
            build_volume(labels={"disk": "hdd"}),
            build_claim(selector={"matchLabels": {"disk": "ssd"}}),
        ),
        (build_volume(), build_claim(volumeAttributesClassName="gold")),
    ],
)
def test_a_volume_that_does_not_fit_is_not_taken(volume: Object, claim: Object) -> None:
    assert chosen(claim, volume) is None


def test_what_is_reserved_for_a_claim_comes_before_what_is_smaller() -> None:
    reserved = build_volume("reserved", "9Gi", phase="Pending", claimRef=REFERENCE)
    assert chosen(build_claim(), build_volume("small"), reserved) == "reserved"
    assert chosen(build_claim("else"), reserved) is None
    # The scheduler chooses a free volume by its node; a reserved one is nobody's choice.
    assert chosen(build_claim(), build_volume(), waits=True) is None
    assert chosen(build_claim(), build_volume(), reserved, waits=True) == "reserved"


def test_an_ending_volume_is_given_to_nobody() -> None:
    ending = build_volume()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert chosen(build_claim(), ending) is None


@pytest.mark.parametrize(
    ("claim", "classes", "pods", "expected"),
    [
        (
            build_claim(storageClassName=""),
            [],
            (),
            Wait(
                "Normal",
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            ),
        ),
        (
            build_claim(),
            [],
            (),
            Wait("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "c" not found'),
        ),
        (build_claim(), [build_class()], (), Provision("example.com/p")),
        (
            build_claim(),
            [build_class() | {"provisioner": "kubernetes.io/no-provisioner"}],
            (),
            Wait(
                "Warning",
                "ProvisioningFailed",
                "no volume plugin matched name: kubernetes.io/no-provisioner",
            ),
        ),
        (
            build_claim(),
            [build_class(waits=True)],
            (),
            Wait(
                "Normal",
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding",
            ),
        ),
        (
            build_claim(),
            [build_class(waits=True)],
            ("p",),
            Wait("Normal", "WaitForPodScheduled", "waiting for pod p to be scheduled"),
        ),
        (
            build_claim(),
            [build_class(waits=True)],
            ("p", "q"),
            Wait("Normal", "WaitForPodScheduled", "waiting for pods p,q to be scheduled"),
        ),
        (
            build_claim(annotations=SELECTED),
            [build_class(waits=True)],
            (),
            Provision("example.com/p"),
        ),
        (build_claim(storageClassName=None), [build_class(default=True)], (), SetClass("c")),
        # An empty name says that no class is wanted: it gets none.
        (
            build_claim(storageClassName=""),
            [build_class(default=True)],
            (),
            Wait(
                "Normal",
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            ),
        ),
    ],
)
def test_a_claim_without_a_volume(
    claim: Object, classes: list[Object], pods: tuple[str, ...], expected: ClaimStep
) -> None:
    assert plan(claim, classes=classes, pods=pods) == expected


def test_of_several_default_classes_the_newest_counts() -> None:
    old = build_class("old", default=True, creationTimestamp="2026-01-01T00:00:00Z")
    new = [
        build_class(name, default=True, creationTimestamp="2026-01-02T00:00:00Z") for name in "yx"
    ]
    found = find_default_class([old, *new])
    assert found is not None
    assert found["metadata"]["name"] == "x"


@pytest.mark.parametrize(
    ("claim", "volume", "expected"),
    [
        (build_claim(volumeName="v"), None, Wait()),
        (
            build_claim(volumeName="v", size="2Gi"),
            build_volume(),
            Wait(
                "Warning",
                "VolumeMismatch",
                'Cannot bind to requested volume "v": requested PV is too small',
            ),
        ),
        (
            build_claim(volumeName="v"),
            build_volume(claimRef=OTHER),
            Wait("Warning", "FailedBinding", 'volume "v" already bound to a different claim.'),
        ),
        (
            build_claim(),
            None,
            Lose(
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
        ),
        (
            build_claim(volumeName="v", annotations=COMPLETED),
            None,
            Lose(
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ),
        ),
        (
            build_claim(volumeName="v", annotations=COMPLETED),
            build_volume(claimRef=OTHER),
            Lose(
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
            ),
        ),
    ],
)
def test_a_claim_that_names_its_volume(
    claim: Object, volume: Object | None, expected: ClaimStep
) -> None:
    if isinstance(expected, Lose):
        claim["metadata"]["annotations"] = COMPLETED
    assert plan(claim, *([volume] if volume else [])) == expected


@pytest.mark.parametrize(
    ("reference", "annotations"),
    [(None, {}), (REFERENCE, {}), (BOUND, {}), (None, COMPLETED), (BOUND, COMPLETED)],
)
def test_a_binding_is_completed_from_wherever_it_stopped(
    reference: Object | None, annotations: dict[str, str]
) -> None:
    volume = build_volume()
    if reference:
        volume["spec"]["claimRef"] = reference
    claim = build_claim(volumeName="v", annotations=annotations)
    step = plan(claim, volume)
    assert isinstance(step, Bind)
    bound = binding.build_bound_volume(step.volume, claim) or step.volume
    assert bound["spec"]["claimRef"]["uid"] == "uid-data"
    # Who reserved the volume keeps the say over it.
    assert (OURS.items() <= bound["metadata"]["annotations"].items()) is (reference is None)
    assert binding.build_bound_volume(bound, claim) is None
    named = binding.build_bound_claim(claim, bound) or claim
    assert named["metadata"]["annotations"] == COMPLETED
    assert binding.build_bound_claim(named, bound) is None
    done = binding.build_claim_phase(named, "Bound", bound)
    assert done is not None
    assert done["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert binding.build_claim_phase(done, "Bound", build_volume("v", "2Gi")) is None


def test_a_lost_claim_says_nothing_of_its_volume_any_more() -> None:
    claim = build_claim(phase="Bound")
    claim["status"] |= {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    lost = binding.build_claim_phase(claim, "Lost", None)
    assert lost is not None
    assert lost["status"] == {"phase": "Lost"}


@pytest.mark.parametrize(
    ("volume", "claim", "expected"),
    [
        (build_volume(), None, SetPhase("Available")),
        (build_volume(claimRef=REFERENCE), build_claim(), SetPhase("Available")),
        (build_volume(claimRef=BOUND), build_claim(), None),
        (build_volume(claimRef=BOUND), build_claim(volumeName="v"), SetPhase("Bound")),
        (build_volume(claimRef=BOUND), build_claim(volumeName="w"), Unbind()),
        (build_volume(claimRef=BOUND), None, Release()),
        (build_volume(claimRef=OTHER), build_claim(), Release()),
    ],
)
def test_a_volume(volume: Object, claim: Object | None, expected: object) -> None:
    assert plan_volume(volume, claim) == expected


def test_volume_and_claim_of_different_modes_are_told_so() -> None:
    claim = build_claim(volumeMode="Block")
    assert plan_volume(build_volume(claimRef=BOUND), claim) == TellMismatch(claim)


def test_what_was_made_for_a_claim_that_got_another_volume_goes() -> None:
    made = {"pv.kubernetes.io/provisioned-by": "example.com/p"}
    volume = build_volume(annotations=made, claimRef=BOUND, persistentVolumeReclaimPolicy="Delete")
    assert plan_volume(volume, build_claim(volumeName="w")) == Release()


def test_the_server_is_asked_before_a_volume_is_released() -> None:
    assert needs_check(build_volume(claimRef=BOUND, phase="Bound"), None)
    assert needs_check(build_volume(claimRef=OTHER, phase="Bound"), build_claim())
    assert not needs_check(build_volume(claimRef=BOUND, phase="Released"), None)
    assert not needs_check(build_volume(claimRef=BOUND), build_claim())
    assert not needs_check(build_volume(claimRef=REFERENCE), None)


def test_unbinding_keeps_what_a_volumes_maker_wanted() -> None:
    ours = binding.build_unbound_volume(build_volume(annotations=OURS, claimRef=BOUND))
    assert "claimRef" not in ours["spec"]
    assert "annotations" not in ours["metadata"]
    theirs = binding.build_unbound_volume(build_volume(claimRef=BOUND))
    assert theirs["spec"]["claimRef"] == REFERENCE


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"persistentVolumeReclaimPolicy": "Retain"}, None),
        (
            {"persistentVolumeReclaimPolicy": "Recycle"},
            Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        ),
        (
            {"persistentVolumeReclaimPolicy": "Delete"},
            Fail(
                "VolumeFailedDelete",
                "host_path deleter only supports /tmp/.+ but received provided /data",
            ),
        ),
        (
            {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/../data"}},
            Fail(
                "VolumeFailedDelete",
                "host_path deleter only supports /tmp/.+ but received provided /tmp/../data",
            ),
        ),
        (
            {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/x"}},
            RemoveFolder("/tmp/x"),
        ),
        ({"persistentVolumeReclaimPolicy": "Delete", "csi": {}, "hostPath": None}, None),
    ],
)
def test_what_becomes_of_a_released_volume(spec: Object, expected: object) -> None:
    assert plan_reclaim(build_volume(**spec)) == expected


def test_a_volume_nobody_here_can_delete_says_so() -> None:
    volume = build_volume(persistentVolumeReclaimPolicy="Delete", local={"path": "/data"})
    del volume["spec"]["hostPath"]
    text = 'error getting deleter volume plugin for volume "v": no volume plugin matched'
    assert plan_reclaim(volume) == Fail("VolumeFailedDelete", text)
    volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = "example.com/p"
    assert plan_reclaim(volume) is None


MOUNTED = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize(
    ("pod", "is_mounting", "is_holding"),
    [
        (build_pod(volumes=MOUNTED), True, True),
        (build_pod(volumes=MOUNTED, node=""), True, False),
        (build_pod(volumes=MOUNTED, phase="Succeeded"), False, True),
        (build_pod(), False, False),
    ],
)
def test_a_pod_uses_a_claim_until_it_has_ended_and_holds_it_until_it_is_gone(
    pod: Object, is_mounting: bool, is_holding: bool
) -> None:
    assert mounts(pod, build_claim()) is is_mounting
    assert holds(pod, build_claim()) is is_holding


def test_an_ephemeral_claim_is_held_only_by_its_own_pod_while_it_lives() -> None:
    pod = build_pod("p", volumes=[{"name": "data", "ephemeral": {}}])
    claim = build_claim("p-data")
    assert not holds(pod, claim)
    owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    assert holds(pod, claim)
    pod["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}
    assert not holds(pod, claim)


def test_the_condition_changes_only_with_its_status() -> None:
    claim = build_claim(phase="Bound")
    unused = build_condition(claim, used=False, now="1")
    assert unused is not None
    assert build_condition(unused, used=False, now="2") is None
    used = build_condition(unused, used=True, now="2")
    assert used is not None
    (condition,) = used["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("PodUsingPVC", "2")
