"""RuntimeClass admission: pods get the overhead and the scheduling of their class (KEP-585)."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.pod_admission import forbidden_pod, new_pod
from kubewright.local.apiserver.storage import decode_json, key_prefix

_NO_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClassAdmission:
    """Fills in what a pod's RuntimeClass says, and refuses a class that is not there."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Set overhead, node selector and tolerations of a new pod with a class.

        Raises:
            Forbidden: there is no such class, or the pod contradicts it.
        """
        pod = new_pod(attributes)
        if pod is None or not pod["spec"].get("runtimeClassName"):
            return
        spec = pod["spec"]
        found = self._find(attributes, spec["runtimeClassName"])
        self._set_overhead(attributes, spec, found)
        scheduling = found.get("scheduling") or {}
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise forbidden_pod(
                    attributes,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        own = spec.get("tolerations") or []
        added = [each for each in scheduling.get("tolerations") or () if each not in own]
        if added:
            spec["tolerations"] = [*own, *added]

    async def validate(self, attributes: Attributes) -> None:
        """Refuse an overhead that is not the class's.

        Raises:
            Forbidden: the pod has an overhead that its class does not give.
        """
        pod = new_pod(attributes)
        if pod is None or not pod["spec"].get("overhead"):
            return
        name = pod["spec"].get("runtimeClassName")
        found = self._find(attributes, name) if name else {}
        if not found.get("overhead"):
            raise forbidden_pod(attributes, _NO_OVERHEAD)
        if found["overhead"].get("podFixed") != pod["spec"]["overhead"]:
            raise forbidden_pod(attributes, _MISMATCH)

    def _set_overhead(self, attributes: Attributes, spec: Object, found: Object) -> None:
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead is None:
            return
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise forbidden_pod(attributes, _MISMATCH)
        spec["overhead"] = dict(overhead)

    def _find(self, attributes: Attributes, name: str) -> Object:
        version = self._backend.store.get(key_prefix("node.k8s.io", "runtimeclasses") + name)
        if version is None:
            raise forbidden_pod(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return decode_json(version.value or b"{}")
