"""The status of a pod, as the kubelet writes it, from what its containers are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Role, State, Terminated, Waiting
from kubewright.local.node.pod_plan import is_failed_init, may_start
from kubewright.local.node.resize_state import ResizeState
from kubewright.local.node.restart_rules import could_restart_all
from kubewright.local.node.volumes import is_recursive_read_only

RESTARTING_ALL = "AllContainersRestarting"
CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    RESTARTING_ALL,
    "PodResizePending",
    "PodResizeInProgress",
)


class PodFacts(msgspec.Struct, frozen=True):
    """What a pod's status tells beside its containers. Times are RFC 3339.

    `is_settled` says that nothing of the pod will run again.
    """

    start_time: str
    host_address: str
    address: str = ""
    has_sandbox: bool = False
    reason: str = ""
    message: str = ""
    is_restarting_all: bool = False
    is_settled: bool = False
    resize: ResizeState | None = None


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
    if facts.is_settled and phase != "Succeeded":
        phase = "Failed"
    generation = pod["metadata"].get("generation")
    status: Object = {
        "phase": phase,
        "conditions": build_conditions(pod, records, facts, phase, now=now, before=before),
        "startTime": facts.start_time,
        "reason": facts.reason or None,
        "message": facts.message or None,
        "hostIP": facts.host_address,
        "hostIPs": [{"ip": facts.host_address}],
        "containerStatuses": _container_statuses(records, [Role.MAIN]),
    }
    if generation is not None:
        status["observedGeneration"] = generation
    for field, *roles in (
        ("initContainerStatuses", Role.INIT, Role.SIDECAR),
        ("ephemeralContainerStatuses", Role.EPHEMERAL),
    ):
        if any(record.role in roles for record in records):
            status[field] = _container_statuses(records, roles)
    if facts.address:
        status["podIP"] = facts.address
        status["podIPs"] = [{"ip": facts.address}]
    return status


def build_rejection(pod: Object, reason: str, message: str, start_time: str) -> Object:
    """Build the status of a pod that its node does not take: nothing is known of its containers."""
    status: Object = {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": start_time,
        "conditions": [],
    }
    if (generation := pod["metadata"].get("generation")) is not None:
        status["observedGeneration"] = generation
    return status


def compute_phase(pod: Object, records: Sequence[ContainerRecord]) -> str:
    """Compute the phase of a pod (the kubelet's getPhase)."""
    mains = [record for record in records if record.role is Role.MAIN]
    if is_failed_init(pod, records):
        return "Failed"
    if _is_pending(records) or any(is_unborn(record) for record in mains):
        return "Pending"
    if any(r.is_running or _is_ending_sidecar(r) for r in records if r.role in LASTING):
        return "Running"
    codes = [record.ended.exit_code for record in mains if record.ended is not None]
    deleted = bool(pod["metadata"].get("deletionTimestamp"))
    if not deleted and any(may_start(pod, record) for record in mains):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


LASTING = (Role.MAIN, Role.SIDECAR)


def is_unborn(record: ContainerRecord) -> bool:
    """Tell whether a container has not run yet."""
    return isinstance(record.state, Waiting) and record.last is None


def _is_ending_sidecar(record: ContainerRecord) -> bool:
    return record.role is Role.SIDECAR and record.work is not None


def _is_pending(records: Sequence[ContainerRecord]) -> bool:
    """Tell whether an init container keeps the pod from beginning."""
    has_begun = any(r.role is Role.MAIN and not is_unborn(r) for r in records)
    for record in records:
        if record.role is Role.INIT and not record.passed:
            return True
        if record.role is Role.SIDECAR and not record.passed and not has_begun:
            return True
    return False


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
        "PodReadyToStartContainers": _ready_to_start(facts),
        "Initialized": _initialized(records, phase, known.get("Initialized") or {}),
        "PodScheduled": ("True", "", ""),
        "ContainersReady": _containers_ready(records, phase),
    }
    verdicts["Ready"] = _ready(pod, verdicts["ContainersReady"])
    if could_restart_all(pod):
        verdicts[RESTARTING_ALL] = _restarting_all(phase, facts)
    if facts.resize is not None:
        verdicts[facts.resize.type] = ("True", facts.resize.reason, facts.resize.message)
    conditions = []
    for type in filter(verdicts.__contains__, CONDITIONS):
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
        generation = pod["metadata"].get("generation")
        if generation is not None and type != RESTARTING_ALL:
            condition["observedGeneration"] = generation
        conditions.append(condition)
    return conditions


Verdict = tuple[str, str, str]


def _ready_to_start(facts: PodFacts) -> Verdict:
    if facts.has_sandbox:
        return "True", "", ""
    message = "pod sandbox is not ready" if facts.address else "no pod sandbox exists"
    return "False", "PodSandboxNotReady", message


def _initialized(records: Sequence[ContainerRecord], phase: str, before: Object) -> Verdict:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    has_begun = any(r.role is Role.MAIN and not is_unborn(r) for r in records)
    incomplete = [r.name for r in records if r.role in (Role.INIT, Role.SIDECAR) and not r.passed]
    # What was initialized once stays so, also while all containers are restarted (KEP-5532).
    if incomplete and not has_begun and before.get("status") != "True":
        names = " ".join(incomplete)
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{names}]"
    return "True", "", ""


def _restarting_all(phase: str, facts: PodFacts) -> Verdict:
    if phase in ("Succeeded", "Failed"):
        return "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    if facts.is_restarting_all:
        return "True", "RestartAllContainersStarted", "container exited with restart policy rule"
    return "False", "", ""


def _containers_ready(records: Sequence[ContainerRecord], phase: str) -> Verdict:
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    unready = [r.name for r in records if r.role in LASTING and not r.is_ready]
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


def _container_statuses(records: Sequence[ContainerRecord], roles: Sequence[Role]) -> list[Object]:
    chosen = [record for record in records if record.role in roles]
    if Role.INIT not in roles:
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
        "started": record.is_started if record.role is not Role.EPHEMERAL else None,
    }
    asked = record.spec.get("resources") or {}
    given = asked if record.actual is None else record.actual
    if record.role is not Role.EPHEMERAL:
        status["resources"] = given
        allocated = asked if record.allocated is None else record.allocated
        if requests := allocated.get("requests"):
            status["allocatedResources"] = requests
    if record.container_id:
        status["containerID"] = record.container_id
    if mounts := record.spec.get("volumeMounts"):
        status["volumeMounts"] = [_mount_status(mount) for mount in mounts]
    if record.container is not None:
        security = record.container.config.security
        linux: Object = {"uid": security.uid, "gid": security.gid}
        if security.groups:
            linux["supplementalGroups"] = list(security.groups)
        status["user"] = {"linux": linux}
    return status


def _mount_status(mount: Object) -> Object:
    """Tell of a volume mount whether it is read-only, and all below it (KEP-3857)."""
    status: Object = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        mode = "Enabled" if is_recursive_read_only(mount) else "Disabled"
        status |= {"readOnly": True, "recursiveReadOnly": mode}
    return status


UNLOCATED = Terminated(
    137,
    "ContainerStatusUnknown",
    "The container could not be located when the pod was terminated",
)


def settle_records(pod: Object, records: Sequence[ContainerRecord]) -> None:
    """Give every container of a pod that has ended its last state (the kubelet's TerminatePod).

    What a deleted pod would have started again has ended as it ended last. What never ran in a pod
    that was initialized counts as lost.
    """
    if pod["metadata"].get("deletionTimestamp"):
        for record in records:
            if isinstance(record.state, Waiting) and record.last is not None:
                record.state, record.last = record.last, None
    begun = [record for record in records if record.role in (Role.INIT, Role.SIDECAR)]
    while len(begun) > 1 and is_unborn(begun[-1]):
        begun.pop()
    if _has_initialized(records):
        begun += [record for record in records if record.role is Role.MAIN]
    for record in begun:
        if isinstance(record.state, Waiting):
            record.state = UNLOCATED


def _has_initialized(records: Sequence[ContainerRecord]) -> bool:
    inits = [record for record in records if record.role in (Role.INIT, Role.SIDECAR)]
    has_begun = any(r.role is Role.MAIN and not is_unborn(r) for r in records)
    return not inits or has_begun or inits[-1].passed
