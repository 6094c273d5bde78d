"""The kubelet's part in cases of a control plane without nodes: what it reports of pods."""

from __future__ import annotations

from kubewright.api.resource import Object

_HOST = "192.168.1.1"
_ENDED = ("Succeeded", "Failed")
_PHASES = {"succeeded": "Succeeded", "failed": "Failed"}


def is_report_due(pod: Object, become: str, *, named: bool) -> bool:
    """Tell whether a kubelet has yet to report that a pod became ready, running, ended or gone.

    A pod that a case names may also fail while it terminates, or run without being ready again.
    """
    terminating = "deletionTimestamp" in pod["metadata"]
    if become == "gone":
        return terminating
    phase = pod["status"].get("phase")
    if not pod["spec"].get("nodeName") or phase in _ENDED:
        return False
    if become == "ready" and _is_ready(pod):
        return False
    if become == "running" and phase == "Running" and not named:
        return False
    return not terminating or (named and become == "failed")


def build_pod_status(pod: Object, become: str, *, exit_code: int, address: str, at: str) -> Object:
    """Build the status that a kubelet writes; `at` is the time of what it saw."""
    ends = become in _PHASES
    state = _build_end(become, exit_code, at) if ends else {"running": {"startedAt": at}}
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": container["image"],
            "ready": become == "ready",
            "started": not ends,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]
    return {
        "phase": _PHASES.get(become, "Running"),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": _HOST,
        "hostIPs": [{"ip": _HOST}],
        "startTime": at,
        "conditions": _build_conditions(become, at),
        "containerStatuses": containers,
    }


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _build_end(become: str, exit_code: int, at: str) -> Object:
    code, reason = (0, "Completed") if become == "succeeded" else (exit_code, "Error")
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at}}


def _build_conditions(become: str, at: str) -> list[Object]:
    met = {
        "PodReadyToStartContainers": True,
        "Initialized": True,
        "Ready": become == "ready",
        "ContainersReady": become == "ready",
    }
    return [
        {"type": kind, "status": str(value), "lastTransitionTime": at}
        for kind, value in met.items()
    ]
