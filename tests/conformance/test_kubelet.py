from __future__ import annotations

from typing import Any

import pytest

from conformance.kubelet import build_pod_status, is_report_due

AT = "2026-11-28T01:00:45Z"


def pod(*, node: str = "n", terminating: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"deletionTimestamp": AT} if terminating else {}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": metadata, "spec": spec, "status": status}


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("given", "become", "named", "due"),
    [
        (pod(), "ready", False, True),
        (pod(node=""), "ready", False, False),
        (pod(conditions=READY), "ready", False, False),
        (pod(phase="Succeeded"), "failed", True, False),
        (pod(phase="Running"), "running", False, False),
        (pod(phase="Running"), "running", True, True),
        (pod(terminating=True), "failed", False, False),
        (pod(terminating=True), "failed", True, True),
        (pod(terminating=True, node=""), "gone", False, True),
        (pod(), "gone", False, False),
    ],
)
def test_what_a_kubelet_has_yet_to_report(
    given: dict[str, Any], become: str, named: bool, due: bool
) -> None:
    assert is_report_due(given, become, named=named) is due


def test_a_failed_pod_has_its_exit_code() -> None:
    status = build_pod_status(pod(), "failed", exit_code=3, address="192.168.7.1", at=AT)
    assert status["phase"] == "Failed"
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")


def test_a_ready_pod_is_ready_in_all_its_parts() -> None:
    status = build_pod_status(pod(), "ready", exit_code=1, address="192.168.7.1", at=AT)
    assert {each["status"] for each in status["conditions"]} == {"True"}
    assert status["containerStatuses"][0]["ready"]
