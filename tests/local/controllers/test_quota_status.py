"""What objects count in quotas, and what a quota's status says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.local.controllers.objects import NOW, build_pod

from kubewright.api import builtin
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.controllers.resource_quota.status import (
    build_status,
    count_usage,
    gives_back,
    is_same_status,
    next_release,
)
from kubewright.local.quota.usage import names_counted


def build_quota(hard: dict[str, str], **spec: Any) -> Object:
    return {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard, **spec}}


def asking(cpu: str = "100m", memory: str = "1Gi", **fields: Any) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    pod = build_pod(**fields)
    pod["spec"]["containers"] = containers
    return pod


def count(hard: dict[str, str], *pods: Object, **spec: Any) -> dict[str, str]:
    usage = count_usage(build_quota(hard, **spec), builtin.POD, pods, NOW)
    return {name: str(amount) for name, amount in usage.items()}


def test_sums_are_written_as_their_first_amount() -> None:
    pods = [asking(memory="1Gi"), asking(memory="1000M")]
    assert count({"requests.memory": "9Gi"}, *pods) == {"requests.memory": "2073741824"}


def test_a_pod_that_ended_counts_as_an_object_only() -> None:
    hard = {"pods": "9", "count/pods": "9", "cpu": "1"}
    used = count(hard, asking(), asking(phase="Succeeded"))
    assert used == {"pods": "1", "count/pods": "2", "cpu": "100m"}


def test_a_pod_on_a_lost_node_stops_counting() -> None:
    # A namespace at its limit could else not replace the pods of a node that is gone.
    pod = asking()
    pod["metadata"]["deletionTimestamp"] = format_time(NOW - timedelta(seconds=31))
    pod["metadata"]["deletionGracePeriodSeconds"] = 30
    assert count({"pods": "9"}, pod) == {"pods": "0"}
    pod["metadata"]["deletionTimestamp"] = format_time(NOW - timedelta(seconds=10))
    assert count({"pods": "9"}, pod) == {"pods": "1"}
    assert next_release([pod], NOW) == timedelta(seconds=20)


def test_a_resize_that_is_not_done_counts_the_larger_amount() -> None:
    pod = asking(cpu="100m")
    status = {"name": "c", "resources": {"requests": {"cpu": "400m"}}}
    pod["status"]["containerStatuses"] = [status]
    assert count({"requests.cpu": "1"}, pod) == {"requests.cpu": "400m"}


@pytest.mark.parametrize(
    ("scope", "count_of"),
    [
        ({"scopes": ["Terminating"]}, "1"),
        ({"scopes": ["NotTerminating"]}, "2"),
        ({"scopes": ["BestEffort"]}, "1"),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, "1"),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["low"]}
                    ]
                }
            },
            "3",
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]
                }
            },
            "1",
        ),
    ],
)
def test_scopes_choose_pods(scope: Object, count_of: str) -> None:
    pods = [
        asking(),
        asking(activeDeadlineSeconds=5),
        build_pod("none", priorityClassName="high"),
    ]
    assert count({"pods": "9"}, *pods, **scope) == {"pods": count_of}


def test_other_objects_have_no_scope() -> None:
    quota = build_quota({"configmaps": "1"}, scopes=["BestEffort"])
    config_map = {"metadata": {"name": "a", "namespace": "ns"}}
    usage = count_usage(quota, builtin.CONFIG_MAP, [config_map], NOW)
    assert usage == {"configmaps": Quantity(0)}


def test_only_requests_of_vendors_resources_are_limited() -> None:
    hard = [
        "requests.example.com/gpu",
        "limits.example.com/gpu",
        "requests.storage",
        "hugepages-2Mi",
    ]
    assert names_counted(builtin.POD, hard) == {"requests.example.com/gpu", "hugepages-2Mi"}


def test_what_cannot_be_counted_keeps_its_last_value() -> None:
    quota = build_quota({"pods": "2", "count/widgets.example.com": "3"})
    quota["status"] = {"used": {"count/widgets.example.com": "2", "secrets": "1"}}
    status = build_status(quota, {"pods": Quantity(1)})
    assert status["used"] == {"pods": "1", "count/widgets.example.com": "2"}


def test_amounts_are_compared_and_not_their_text() -> None:
    one = {"hard": {"cpu": "1"}, "used": {"cpu": "500m"}}
    assert is_same_status(one, {"hard": {"cpu": "1000m"}, "used": {"cpu": "0.5"}})
    assert not is_same_status(one, {"hard": {"cpu": "1"}})


def test_a_change_gives_back_when_something_counts_less() -> None:
    assert gives_back(builtin.POD, asking(), asking(phase="Failed"), NOW)
    assert not gives_back(builtin.POD, asking(), asking(ready=False), NOW)
    assert gives_back(builtin.POD, asking(), asking(activeDeadlineSeconds=5), NOW)
