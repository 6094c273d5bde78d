"""The status of a pod, as the kubelet writes it, from what its containers are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.containers import (
    ContainerRecord,
    Role,
    Running,
    State,
    Terminated,
    Waiting,
)

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


class PodFacts(msgspec.Struct, frozen=True):
    """What a pod's status tells beside its containers. Times are RFC 3339."""

    start_time: str
    host_address: str
    address: str = ""
    has_sandbox: bool = False
    reason: str = ""
    message: str = ""


def build_status(
    pod: Object,
    records: Sequence[ContainerRecord],
    facts: PodFacts,
    *,
    now: str,
    before: Sequence[Object] = (),
) -> Object:
    """Build the status of a pod, to be merged strategically into what the API server has.

    `before` are the conditions known so far; a condition whose status stays keeps its time of
    transition. Fields that are to vanish are None.
    """
    phase = "Failed" if facts.reason else compute_phase(pod, records)
    generation = pod["metadata"].get("generation")
    status: Object = {
        "phase": phase,
        "conditions": build_conditions(pod, records, facts, phase, now=now, before=before),
        "startTime": facts.start_time,
        "reason": facts.reason or None,
        "message": facts.message or None,
        "hostIP": facts.host_address,
        "hostIPs": [{"ip": facts.host_address}],
        "containerStatuses": _container_statuses(records, (Role.MAIN,)),
    }
    if generation is not None:
        status["observedGeneration"] = generation
    if any(record.role is not Role.MAIN for record in records):
        roles = (Role.INIT, Role.SIDECAR)
        status["initContainerStatuses"] = _container_statuses(records, roles)
    if facts.address:
        status["podIP"] = facts.address
        status["podIPs"] = [{"ip": facts.address}]
    return status


def compute_phase(pod: Object, records: Sequence[ContainerRecord]) -> str:
    """Compute the phase of a pod (kubelet's getPhase)."""
    if phase := _init_phase(pod, records):
        return phase
    mains = [record for record in records if record.role is Role.MAIN]
    if any(isinstance(r.state, Waiting) and r.last is None for r in mains):
        return "Pending"
    if any(isinstance(record.state, Running) for record in mains):
        return "Running"
    if any(r.role is Role.SIDECAR and (r.is_running or r.work is not None) for r in records):
        return "Running"
    if any(isinstance(record.state, Waiting) for record in mains):
        return "Running"
    policy = pod["spec"].get("restartPolicy") or "Always"
    deleted = bool(pod["metadata"].get("deletionTimestamp"))
    if policy == "Always" and not deleted:
        return "Running"
    codes = [r.state.exit_code for r in mains if isinstance(r.state, Terminated)]
    if not any(codes):
        return "Succeeded"
    return "Failed" if policy == "Never" or deleted else "Running"


def _init_phase(pod: Object, records: Sequence[ContainerRecord]) -> str:
    """Return the phase that the init containers decide; "" when they are done."""
    never = pod["spec"].get("restartPolicy") == "Never"
    for record in records:
        if record.role is Role.MAIN or record.passed:
            continue
        ended = isinstance(record.state, Terminated) and record.state.exit_code != 0
        deleted = bool(pod["metadata"].get("deletionTimestamp"))
        if record.role is Role.INIT and ended and (never or deleted):
            return "Failed"
        return "Pending"
    return ""


def build_conditions(
    pod: Object,
    records: Sequence[ContainerRecord],
    facts: PodFacts,
    phase: str,
    *,
    now: str,
    before: Sequence[Object],
) -> list[Object]:
    """Build the conditions that the kubelet owns; those of others are not touched."""
    known = {entry["type"]: entry for entry in before}
    verdicts = {
        "PodReadyToStartContainers": ("True" if facts.has_sandbox else "False", "", ""),
        "Initialized": _initialized(records, phase),
        "ContainersReady": _containers_ready(records, phase),
    }
    verdicts["Ready"] = _ready(pod, verdicts["ContainersReady"])
    conditions = []
    for type in CONDITIONS:
        status, reason, message = verdicts[type]
        old = known.get(type) or {}
        same = old.get("status") == status and old.get("lastTransitionTime")
        condition: Object = {
            "type": type,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"] if same else now,
            "reason": reason or None,
            "message": message or None,
        }
        if (generation := pod["metadata"].get("generation")) is not None:
            condition["observedGeneration"] = generation
        conditions.append(condition)
    return conditions


Verdict = tuple[str, str, str]


def _initialized(records: Sequence[ContainerRecord], phase: str) -> Verdict:
    incomplete = [r.name for r in records if r.role is not Role.MAIN and not r.passed]
    if incomplete:
        names = " ".join(incomplete)
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{names}]"
    return "True", "PodCompleted" if phase == "Succeeded" else "", ""


def _containers_ready(records: Sequence[ContainerRecord], phase: str) -> Verdict:
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    unready = [r.name for r in records if r.role is not Role.INIT and not r.is_ready]
    if unready:
        names = " ".join(unready)
        return "False", "ContainersNotReady", f"containers with unready status: [{names}]"
    return "True", "", ""


def _ready(pod: Object, containers: Verdict) -> Verdict:
    if containers[0] != "True":
        return containers
    current: Mapping[str, Object] = {
        entry["type"]: entry for entry in (pod.get("status") or {}).get("conditions") or ()
    }
    problems = []
    for gate in pod["spec"].get("readinessGates") or ():
        type = gate["conditionType"]
        condition = current.get(type)
        if condition is None:
            problems.append(
                f'corresponding condition of pod readiness gate "{type}" does not exist.'
            )
        elif condition.get("status") != "True":
            problems.append(
                f'the status of pod readiness gate "{type}" is not "True", '
                f"but {condition.get('status')}"
            )
    if problems:
        return "False", "ReadinessGatesNotReady", ", ".join(problems)
    return "True", "", ""


def _container_statuses(
    records: Sequence[ContainerRecord], roles: tuple[Role, ...]
) -> list[Object]:
    chosen = [record for record in records if record.role in roles]
    if roles == (Role.MAIN,):
        chosen.sort(key=lambda record: record.name)
    return [build_container_status(record) for record in chosen]


def build_container_status(record: ContainerRecord) -> Object:
    """Build the status of one container."""
    state: State = record.state
    status: Object = {
        "name": record.name,
        "state": state.to_object(),
        "lastState": record.last.to_object() if record.last else {},
        "ready": record.is_ready,
        "restartCount": record.restarts,
        "image": record.image.name if record.image else record.spec.get("image") or "",
        "imageID": record.image.image_id if record.image else "",
        "started": record.is_started,
    }
    if resources := record.spec.get("resources"):
        # Nothing holds a container to them; what is asked for counts as given.
        status["resources"] = resources
        if requests := resources.get("requests"):
            status["allocatedResources"] = requests
    if record.container_id:
        status["containerID"] = record.container_id
    return status
