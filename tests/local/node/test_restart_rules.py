from __future__ import annotations

from typing import Any

import pytest
from tests.local.node.objects import build_pod, records_of

from kubewright.local.node.restart_rules import (
    could_restart_all,
    find_action,
    is_restarted_by_probe,
    should_restart,
)


def rule(action: str, operator: str, *values: int) -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("pod_policy", "own", "code", "restarts"),
    [
        ("Always", {}, 0, True),
        ("Never", {}, 1, False),
        ("Never", {"restartPolicy": "Always"}, 0, True),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Always", {"restartPolicy": "OnFailure"}, 0, False),
        ("Never", {"restartPolicy": "OnFailure"}, 2, True),
    ],
)
def test_policy_of_the_container_goes_before_the_pods(
    pod_policy: str, own: dict[str, Any], code: int, restarts: bool
) -> None:
    pod = build_pod(restartPolicy=pod_policy, containers=[{"name": "c", "image": "x", **own}])
    (record,) = records_of(pod)
    assert should_restart(pod, record, code) is restarts


def test_first_rule_that_matches_decides_else_the_policy() -> None:
    rules = [rule("Restart", "In", 42), rule("RestartAllContainers", "NotIn", 0, 1)]
    own = {"restartPolicy": "Never", "restartPolicyRules": rules}
    pod = build_pod(containers=[{"name": "c", "image": "x", **own}])
    (record,) = records_of(pod)
    assert [find_action(record.spec, code) for code in (42, 7, 1)] == [
        "Restart",
        "RestartAllContainers",
        "",
    ]
    assert [should_restart(pod, record, code) for code in (42, 7, 1)] == [True, True, False]
    assert could_restart_all(pod)
    assert not is_restarted_by_probe(pod, record)


def test_init_container_that_ended_well_stays_so() -> None:
    pod = build_pod(initContainers=[{"name": "i", "image": "x"}])
    init, _ = records_of(pod)
    assert [should_restart(pod, init, code) for code in (0, 1)] == [False, True]


def test_ephemeral_container_never_starts_again() -> None:
    pod = build_pod(ephemeralContainers=[{"name": "dbg", "image": "x"}])
    _, debug = records_of(pod)
    assert not should_restart(pod, debug, 1)
