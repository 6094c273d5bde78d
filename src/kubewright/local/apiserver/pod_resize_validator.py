"""The admission plugin PodResizeValidator: a pod does not grow beyond its node."""

from __future__ import annotations

from kubewright.api.errors import Cause, Forbidden, StatusDetails
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.storage import decode_json, key_prefix


class PodResizeValidator:
    """Refuses the resize of a bound pod that its node could never hold."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuse requests above what the node has to give. Raises Forbidden."""
        pod, old = attributes.obj, attributes.old
        if attributes.subresource != "resize" or pod is None or old is None:
            return
        node_name = pod["spec"].get("nodeName")
        if not node_name or pod["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        version = self._backend.store.get(key_prefix("", "nodes") + node_name)
        if version is None:
            raise self._refuse(attributes, f'node "{node_name}" not found', "")
        node = decode_json(version.value or b"{}")
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        if lacking := list_lacking(pod, allocatable):
            text = "; ".join(lacking)
            problem = f"node didn't have enough allocatable resources: {text}"
            raise self._refuse(attributes, problem, "NodeCapacity")

    def _refuse(self, attributes: Attributes, problem: str, reason: str) -> Forbidden:
        causes = (Cause(reason, ""),) if reason else ()
        return Forbidden(
            f'pods "{attributes.name}" is forbidden: {problem}',
            StatusDetails(name=attributes.name, kind="pods", causes=causes),
        )


def list_lacking(pod: Object, allocatable: Object) -> list[str]:
    """List what a pod asks for beyond an amount, as the message of the refusal says it."""
    lacking = []
    for name, unit in (("cpu", 1000), ("memory", 1)):
        asked = sum_requests(pod, name)
        there = Quantity(allocatable.get(name) or "0").value * unit
        if asked * unit > there:
            lacking.append(f"{name}, requested: {int(asked * unit)}, allocatable: {int(there)}")
    return lacking


def sum_requests(pod: Object, name: str) -> float:
    """Sum what the containers and sidecars of a pod ask for; what the pod asks for goes before."""
    spec = pod["spec"]
    own = ((spec.get("resources") or {}).get("requests") or {}).get(name)
    if own is not None:
        return float(Quantity(own).value)
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    total = sum(
        Quantity(((c.get("resources") or {}).get("requests") or {}).get(name) or "0").value
        for c in [*spec["containers"], *sidecars]
    )
    overhead = Quantity((spec.get("overhead") or {}).get(name) or "0").value
    return float(total + overhead)
