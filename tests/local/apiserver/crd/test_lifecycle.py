from __future__ import annotations

import copy
from typing import Any

from tests.local.apiserver.crd.definitions import NOW, definition, established

from kubewright.api.conditions import find_condition
from kubewright.local.apiserver.crd.lifecycle import (
    CLEANUP_FINALIZER,
    DefinitionLifecycle,
    is_terminating,
    plan_deletion,
)


class World:
    """Definitions in memory, and how many objects are left of their kinds."""

    def __init__(self, *crds: dict[str, Any], instances: int = 0) -> None:
        self.crds = {crd["metadata"]["name"]: crd for crd in crds}
        self.instances = instances
        self.held = False

    def lifecycle(self) -> DefinitionLifecycle:
        return DefinitionLifecycle(
            lambda: [copy.deepcopy(crd) for crd in self.crds.values()],
            self.write,
            self.delete_instances,
            self.remove_finalizer,
            lambda: NOW,
        )

    async def write(self, crd: dict[str, Any]) -> None:
        self.crds[crd["metadata"]["name"]] = crd

    async def delete_instances(self, crd: dict[str, Any]) -> int:
        if not self.held:
            self.instances = 0
        return self.instances

    async def remove_finalizer(self, crd: dict[str, Any]) -> None:
        del self.crds[crd["metadata"]["name"]]


def test_deletion_puts_the_cleanup_finalizer_on() -> None:
    crd = plan_deletion(established(), NOW)
    assert crd["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
    assert crd["metadata"]["deletionTimestamp"] == NOW
    condition = find_condition(crd["status"]["conditions"], "Terminating")
    assert condition is not None
    assert condition["reason"] == "InstanceDeletionPending"
    assert is_terminating(crd)


def test_deleting_twice_changes_nothing() -> None:
    crd = plan_deletion(established(), NOW)
    assert plan_deletion(crd, "2027-01-01T00:00:00Z") is crd


async def test_establishes_new_definitions_one_after_the_other() -> None:
    first, second = definition(), definition(plural="wheels")
    for crd in (first, second):
        crd["spec"]["names"]["shortNames"] = ["w"]
    world = World(first, second)
    assert not await world.lifecycle().run_once()
    accepted = [crd["status"]["acceptedNames"].get("shortNames") for crd in world.crds.values()]
    assert accepted == [["w"], None]


async def test_removes_a_definition_when_its_objects_are_gone() -> None:
    world = World(plan_deletion(established(), NOW), instances=2)
    world.held = True
    lifecycle = world.lifecycle()
    assert await lifecycle.run_once()
    crd = world.crds["widgets.example.com"]
    condition = find_condition(crd["status"]["conditions"], "Terminating")
    assert condition is not None
    assert condition["reason"] == "InstanceDeletionInProgress"
    world.held = False
    assert not await lifecycle.run_once()
    assert world.crds == {}
