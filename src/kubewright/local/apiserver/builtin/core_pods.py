"""Rules of Pod: status at creation, quality of service, what may change later."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from kubewright.api.errors import Cause
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import check_not_negative
from kubewright.local.apiserver.builtin.pod_table import POD_COLUMNS, pod_cells
from kubewright.local.apiserver.builtin.pods import validate_pod_spec
from kubewright.local.apiserver.builtin.pods.label_keys import merge_label_keys
from kubewright.local.apiserver.builtin.rules import Rules, Table, text_at
from kubewright.local.apiserver.builtin.warnings import warn_of_pod_spec
from kubewright.local.apiserver.field_error import forbidden, invalid
from kubewright.local.apiserver.formats import check_dns_label

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GATED = "SchedulingGated"


def _prepare_create(pod: Object) -> None:
    merge_label_keys(pod)
    pod["status"] = {"phase": "Pending"}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": _GATED,
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    pod["status"]["qosClass"] = quality_of_service(pod["spec"])


def quality_of_service(spec: Object) -> str:
    """Return the quality-of-service class of a pod by the amounts that its containers ask for."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    is_guaranteed = True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") or {}
        _add_amounts(requests, resources.get("requests"))
        limited = _add_amounts(limits, resources.get("limits"))
        is_guaranteed = is_guaranteed and limited >= {"cpu", "memory"}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _add_amounts(total: dict[str, Quantity], amounts: Mapping[str, str] | None) -> set[str]:
    found: set[str] = set()
    for name, amount in (amounts or {}).items():
        quantity = Quantity(amount)
        if name in ("cpu", "memory") and quantity.value > 0:
            found.add(name)
            if name in total:
                quantity.value += total[name].value
            total[name] = quantity
    return found


def _prepare_status_update(pod: Object, old: Object) -> None:
    status, before = pod["status"], old["status"]
    if not status.get("qosClass") and before.get("qosClass"):
        status["qosClass"] = before["qosClass"]
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]


def _validate(pod: Object) -> list[Cause]:
    spec = pod["spec"]
    causes = validate_pod_spec(spec, "spec")
    if not spec.get("serviceAccountName"):
        causes += _check_projected_tokens(spec)
    grace = spec.get("terminationGracePeriodSeconds")
    return causes + check_not_negative(grace, "spec.terminationGracePeriodSeconds")


def _check_projected_tokens(spec: Object) -> list[Cause]:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(
            f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken", detail
        )
        for index, volume in enumerate(spec.get("volumes") or ())
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if "serviceAccountToken" in source
    ]


def _validate_create(pod: Object) -> list[Cause]:
    spec = pod["spec"]
    causes = _validate(pod)
    is_new = not pod["metadata"].get("resourceVersion")
    if is_new and spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden("spec.nodeName", detail))
    return causes


def _validate_update(pod: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = pod["spec"], old["spec"]
    causes: list[Cause] = []
    for key in ("containers", "initContainers"):
        if len(new_spec.get(key) or ()) != len(old_spec.get(key) or ()):
            detail = "pod updates may not add or remove containers"
            return [*causes, forbidden(f"spec.{key}", detail)]
    deadline, before = new_spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    if deadline is not None and before is not None and deadline > before:
        detail = "must be less than or equal to previous value"
        return [*causes, invalid("spec.activeDeadlineSeconds", deadline, detail)]
    if deadline is None and before is not None:
        detail = "must not update from a positive integer to nil value"
        causes.append(invalid("spec.activeDeadlineSeconds", None, detail))
    causes += _check_ephemeral_kept(new_spec, old_spec)
    causes += _check_only_added(new_spec, old_spec)
    causes += _check_only_removed(new_spec, old_spec)
    if _unchangeable(new_spec, old_spec) != old_spec:
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n"
        causes.append(forbidden("spec", detail))
    return causes


def _check_ephemeral_kept(new: Object, old: Object) -> list[Cause]:
    field, found = "spec.ephemeralContainers", new.get("ephemeralContainers") or []
    by_name = {container.get("name"): container for container in found}
    causes: list[Cause] = []
    for container in old.get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in by_name:
            detail = f'existing ephemeral containers "{name}" may not be removed\n'
            causes.append(forbidden(field, detail))
        elif by_name[name] != container:
            detail = f'existing ephemeral containers "{name}" may not be changed\n'
            causes.append(forbidden(field, detail))
    return causes


def _check_only_added(new: Object, old: Object) -> list[Cause]:
    tolerations = new.get("tolerations") or []
    missing = [t for t in old.get("tolerations") or () if not _keeps(tolerations, t)]
    if missing:
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", detail)]
    return []


def _keeps(tolerations: list[Object], wanted: Object) -> bool:
    def plain(item: Object) -> Object:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    return any(plain(item) == plain(wanted) for item in tolerations)


def _check_only_removed(new: Object, old: Object) -> list[Cause]:
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate.get("name") not in known
    ]


def _unchangeable(new: Object, old: Object) -> Object:
    """Return the new spec with what may change taken from the old one."""
    result = deepcopy(new)
    for key in ("containers", "initContainers"):
        for container, before in zip(result.get(key) or (), old.get(key) or (), strict=True):
            if "image" in before:
                container["image"] = before["image"]
    # Debug containers come through a subresource of their own.
    keys = ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"]
    if old.get("schedulingGates"):
        keys += ["nodeSelector", "affinity"]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0:
        keys.append("terminationGracePeriodSeconds")
    for key in keys:
        result.pop(key, None)
        if key in old:
            result[key] = old[key]
    return result


def _validate_status(pod: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    if pod["status"].get("qosClass") != old["status"].get("qosClass"):
        value = pod["status"].get("qosClass")
        causes.append(invalid("status.qosClass", value, "field is immutable"))
    return causes + _check_addresses(pod["status"])


def _check_addresses(status: Object) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("podIPs", "hostIPs"):
        addresses = [item.get("ip") or "" for item in status.get(field) or ()]
        families = [":" in address for address in addresses]
        if len(set(families)) < len(families):
            shown = [{"IP": address} for address in addresses]
            detail = "may specify no more than one IP for each IP family"
            causes.append(invalid(f"status.{field}", shown, detail))
    return causes


def _warnings(pod: Object, old: Object | None) -> list[str]:
    if old is not None:
        return []
    texts = warn_of_pod_spec(pod["spec"], "spec")
    faults = check_dns_label(pod["metadata"].get("name") or "")
    if not faults:
        return texts
    shown = " ".join(faults)
    text = (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising"
        f" behavior; a DNS label is recommended: [{shown}]"
    )
    return [text, *texts]


def _pod_ip(pod: Object) -> str:
    return (pod.get("status") or {}).get("podIP") or ""


RULES: Mapping[str, Rules] = {
    "Pod": Rules(
        has_generation=True,
        prepare_for_create=_prepare_create,
        prepare_for_status_update=_prepare_status_update,
        validate=_validate_create,
        validate_update=_validate_update,
        validate_status_update=_validate_status,
        warnings=_warnings,
        status_resets=(
            ("spec",),
            ("metadata", "deletionTimestamp"),
            ("metadata", "ownerReferences"),
        ),
        fields={
            "spec.nodeName": text_at("spec", "nodeName"),
            "spec.restartPolicy": text_at("spec", "restartPolicy"),
            "spec.schedulerName": text_at("spec", "schedulerName"),
            "spec.serviceAccountName": text_at("spec", "serviceAccountName"),
            "spec.hostNetwork": lambda pod: str(bool(pod["spec"].get("hostNetwork"))).lower(),
            "status.phase": text_at("status", "phase"),
            "status.podIP": _pod_ip,
            "status.podIPs": _pod_ip,
            "status.nominatedNodeName": text_at("status", "nominatedNodeName"),
        },
        table=Table(POD_COLUMNS, pod_cells),
    ),
}
