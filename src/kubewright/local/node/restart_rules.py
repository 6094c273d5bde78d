"""Whether a container that ended starts again: by its rules, its policy, the pod's policy. Pure.

Source: KEP-5307 (restart policy and rules of one container), KEP-5532 (RestartAllContainers).
"""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Role

RESTART, RESTART_ALL = "Restart", "RestartAllContainers"


def should_restart(pod: Object, record: ContainerRecord, exit_code: int) -> bool:
    """Tell whether a container that ended with a status is to start again."""
    if record.role is Role.EPHEMERAL:
        return False
    spec = record.spec
    if spec.get("restartPolicy") and find_action(spec, exit_code) in (RESTART, RESTART_ALL):
        return True
    policy = spec.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    if record.role is Role.INIT and exit_code == 0:
        return False
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def find_action(container: Object, exit_code: int) -> str:
    """Return the action of the first rule of a container that an exit status matches, or ""."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes")
        if codes is None:
            continue
        is_among = exit_code in (codes.get("values") or ())
        if is_among is (codes.get("operator") == "In"):
            return str(rule.get("action") or "")
    return ""


def is_restarted_by_probe(pod: Object, record: ContainerRecord) -> bool:
    """Tell whether a container that a probe kills starts again: rules need an exit status."""
    if record.role is Role.SIDECAR:
        return True
    own: str | None = record.spec.get("restartPolicy")
    return (own or pod["spec"].get("restartPolicy")) != "Never"


def could_restart_all(pod: Object) -> bool:
    """Tell whether some container's end may restart all containers of the pod."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    rules = [rule for entry in containers for rule in entry.get("restartPolicyRules") or ()]
    return any(rule.get("action") == RESTART_ALL for rule in rules)
