"""The resize of a pod: what may change of the resources of its containers in place (KEP-1287)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.core_pods import quality_of_service
from kubewright.local.apiserver.builtin.pods import validate_pod_spec
from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy
from kubewright.local.apiserver.field_error import forbidden, invalid
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.objectmeta import validate_object_meta_update

_GROUPS = ("containers", "initContainers")
_RESIZED = ("cpu", "memory")
_KEPT_METADATA = (
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "deletionTimestamp",
    "generation",
)


class ResizeStrategy(BuiltinStrategy):
    """The strategy of a pod that is resized: cpu and memory change, and nothing else."""

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(kind.resource, kind.definition, has_status=True)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Take only the resources and resize policies of containers, and those of the pod."""
        asked = obj["spec"]
        if _container_names(asked) == _container_names(old["spec"]):
            obj["spec"] = _with_resources(old["spec"], asked)
        obj["status"] = deepcopy(old.get("status") or {})
        for field in _KEPT_METADATA:
            if field in old["metadata"]:
                obj["metadata"][field] = deepcopy(old["metadata"][field])
            else:
                obj["metadata"].pop(field, None)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Refuse what the node could not do, and a change of the quality of service."""
        causes = validate_object_meta_update(obj["metadata"], old["metadata"])
        causes += validate_pod_spec(obj["spec"], "spec")
        before = (old.get("status") or {}).get("qosClass") or quality_of_service(old["spec"])
        if before != quality_of_service(obj["spec"]):
            detail = "Pod QOS Class may not change as a result of resizing"
            causes.append(invalid("spec", before, detail))
        if not _is_supported(old):
            causes.append(forbidden("spec", "Pod running on node without support for resize"))
        if order := _check_order(obj["spec"], old["spec"]):
            return causes + order
        return causes + _check_removed(obj["spec"], old["spec"]) + _check_changed(obj, old)


def _container_names(spec: Object) -> list[list[str]]:
    return [[container["name"] for container in spec.get(group) or ()] for group in _GROUPS]


def _with_resources(spec: Object, asked: Object) -> Object:
    result = deepcopy(spec)
    for group in _GROUPS:
        for container, wanted in zip(result.get(group) or (), asked.get(group) or (), strict=True):
            for field in ("resources", "resizePolicy"):
                if field in wanted:
                    container[field] = wanted[field]
                else:
                    container.pop(field, None)
    if "resources" in asked:
        result["resources"] = asked["resources"]
    return result


def _is_supported(pod: Object) -> bool:
    """Tell whether the node reports what containers really have; a pod that waits may hope."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if "running" in (status.get("state") or {}):
            return status.get("resources") is not None
    return True


def _check_order(new: Object, old: Object) -> list[Cause]:
    causes = []
    for group in _GROUPS:
        found, known = new.get(group) or (), old.get(group) or ()
        if len(found) != len(known):
            detail = f"{group} may not be added or removed on resize"
            causes.append(forbidden(f"spec.{group}", detail))
            continue
        detail = f"{group} may not be renamed or reordered on resize"
        causes += [
            forbidden(f"spec.{group}[{index}].name", detail)
            for index, pair in enumerate(zip(found, known, strict=True))
            if pair[0]["name"] != pair[1]["name"]
        ]
    return causes


def _pairs(new: Object, old: Object) -> Iterator[tuple[str, bool, Object, Object]]:
    """Yield the containers: where they are, whether they stay, how they are to be, and were."""
    for group in _GROUPS:
        pairs = zip(new.get(group) or (), old.get(group) or (), strict=True)
        for index, (container, before) in enumerate(pairs):
            stays = group == "containers" or before.get("restartPolicy") == "Always"
            yield f"spec.{group}[{index}]", stays, container, before


def _check_removed(new: Object, old: Object) -> list[Cause]:
    causes = []
    for field, stays, container, before in _pairs(new, old):
        for part in ("requests", "limits"):
            gone = _amounts(before, part).keys() - _amounts(container, part).keys()
            if stays and gone:
                detail = f"resource {part} cannot be removed"
                causes.append(forbidden(f"{field}.resources.{part}", detail))
    return causes


def _check_changed(obj: Object, old: Object) -> list[Cause]:
    causes = []
    for field, stays, container, before in _pairs(obj["spec"], old["spec"]):
        if not stays:
            if container != before:
                detail = "resources for non-sidecar init containers are immutable"
                causes.append(forbidden("spec", detail))
        elif _without_resized(container) != _without_resized(before):
            if field.startswith("spec.containers"):
                causes.append(forbidden("spec", "only cpu and memory resources are mutable"))
            else:
                detail = "only cpu and memory resources for init or sidecar containers are mutable"
                causes.append(forbidden(field, detail))
    return causes


def _amounts(container: Object, part: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(part) or {}


def _without_resized(container: Object) -> Object:
    resources = dict(container.get("resources") or {})
    for part in ("requests", "limits"):
        amounts = _amounts(container, part)
        left = {name: amount for name, amount in amounts.items() if name not in _RESIZED}
        resources.pop(part, None)
        if left:
            resources[part] = left
    return {**container, "resources": resources}
