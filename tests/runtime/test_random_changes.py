"""Whatever changes, in what is desired or by others: "nothing to do" is never said wrongly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.errors import Invalid
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.object_diff import diff_objects
from kubewright.runtime.owned_fields import is_applied
from tests.runtime.kinds_of_children import CHILDREN
from tests.runtime.test_no_update_loops import without_version

MANAGER = "random-operator"
STEPS = 40

Change = Callable[[Random, Object], None]


def container_of(obj: Object) -> Object:
    found: Object = obj["spec"]["template"]["spec"]["containers"][0]
    return found


def toggle(random: Random, target: Object, field: str, *values: Any) -> None:
    """Set a field to one of some values, or take it out."""
    value = random.choice([None, *values])
    if value is None:
        target.pop(field, None)
    else:
        target[field] = copy.deepcopy(value)


def change_label(random: Random, obj: Object) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    toggle(random, labels, random.choice("abc"), "", "1", "2")


def change_annotation(random: Random, obj: Object) -> None:
    annotations = obj["metadata"].setdefault("annotations", {})
    toggle(random, annotations, random.choice("ab"), "", "x")


def change_replicas(random: Random, obj: Object) -> None:
    toggle(random, obj["spec"], "replicas", 0, 1, 2)


def change_environment(random: Random, obj: Object) -> None:
    names = random.sample("ABCD", random.randint(0, 4))
    values = [{"name": name, "value": random.choice(["", "1", "1000m"])} for name in names]
    toggle(random, container_of(obj), "env", values, [])


def change_ports(random: Random, obj: Object) -> None:
    ports: list[Object] = [
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "UDP"},
        {"containerPort": 443, "protocol": "TCP", "name": "tls"},
    ]
    toggle(random, container_of(obj), "ports", random.sample(ports, random.randint(0, 3)))


def change_resources(random: Random, obj: Object) -> None:
    amounts = ["1", "1000m", "0.5", "500m", "1e0"]
    limits = {"cpu": random.choice(amounts), "memory": random.choice(["1Gi", "1024Mi"])}
    toggle(random, container_of(obj), "resources", {}, {"limits": limits}, {"limits": {}})


def change_arguments(random: Random, obj: Object) -> None:
    toggle(random, container_of(obj), "args", [], ["a"], ["a", "b"], ["b", "a"])


def change_volumes(random: Random, obj: Object) -> None:
    pod = obj["spec"]["template"]["spec"]
    volumes = [
        {"name": "tmp", "emptyDir": random.choice([{}, {"sizeLimit": "1024Mi"}])},
        {"name": "c", "configMap": {"name": "c", "defaultMode": random.choice([420, 256])}},
    ]
    toggle(random, pod, "volumes", random.sample(volumes, random.randint(0, 2)))


def change_probe(random: Random, obj: Object) -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": random.choice([5, 10])}
    toggle(random, container_of(obj), "readinessProbe", probe, {"exec": {"command": ["true"]}})


def change_strategy(random: Random, obj: Object) -> None:
    toggle(
        random,
        obj["spec"],
        "strategy",
        {"type": "Recreate"},
        {"rollingUpdate": {"maxSurge": random.choice([0, 1, "25%"]), "maxUnavailable": 1}},
        {},
    )


def change_scheduling(random: Random, obj: Object) -> None:
    pod = obj["spec"]["template"]["spec"]
    toggle(random, pod, "nodeSelector", {}, {"zone": "a"})
    toggle(random, pod, "tolerations", [], [{"key": "a", "operator": "Exists"}])
    toggle(random, pod, "terminationGracePeriodSeconds", 0, 30)


CHANGES: list[Change] = [
    change_label,
    change_annotation,
    change_replicas,
    change_environment,
    change_ports,
    change_resources,
    change_arguments,
    change_volumes,
    change_probe,
    change_strategy,
    change_scheduling,
]

BY_OTHERS: list[Object] = [
    {"metadata": {"labels": {"a": "theirs"}}},
    {"metadata": {"labels": {"a": None, "b": None}}},
    {"metadata": {"annotations": {"a": None, "z": "theirs"}}},
    {"spec": {"replicas": 3}},
    {"spec": {"template": {"metadata": {"annotations": {"restarted": "yes"}}}}},
    {"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}},
    {"spec": {"template": {"spec": {"tolerations": None}}}},
]


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_to_do_means_that_an_apply_changes_nothing(
    client: Client, namespace: str, seed: int
) -> None:
    random = Random(seed)
    desired = copy.deepcopy(CHILDREN["Deployment that recreates"])
    desired["metadata"]["namespace"] = namespace
    live = await client.apply(desired, field_manager=MANAGER)
    idle = 0
    for _ in range(STEPS):
        wanted = copy.deepcopy(desired)
        if random.random() < 0.7:
            random.choice(CHANGES)(random, wanted)
        else:
            patch = random.choice(BY_OTHERS)
            live = await client.patch(
                builtin.DEPLOYMENT, "web", patch, type=PatchType.MERGE, namespace=namespace
            )
        nothing_to_do = is_applied(wanted, live, MANAGER)
        try:
            after = await client.apply(wanted, field_manager=MANAGER)
        except Invalid:
            assert not nothing_to_do
            continue
        if nothing_to_do:
            idle += 1
            assert without_version(after) == without_version(live), diff_objects(live, after)
        assert is_applied(wanted, after, MANAGER), wanted
        desired, live = wanted, after
    assert 0 < idle < STEPS
