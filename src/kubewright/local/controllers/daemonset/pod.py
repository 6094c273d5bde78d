"""The pod of a node: bound to it by affinity, and tolerant of what is wrong with it. Pure."""

from __future__ import annotations

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.daemonset.daemon_set import (
    GENERATION_LABEL,
    HASH_LABEL,
    DaemonSet,
)

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NO_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build_tolerations(daemon_set: DaemonSet) -> list[Object]:
    """Build the tolerations of a DaemonSet's pods: the template's, then those of every daemon.

    One of the template that means the same taint is replaced where it stands.
    """
    spec = daemon_set.pod_spec
    tolerations: list[Object] = list(spec.get("tolerations") or ())
    tolerated = [*_TOLERATED, *([_NO_NETWORK] if spec.get("hostNetwork") else [])]
    for key, effect in tolerated:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        for place, known in enumerate(tolerations):
            if _means_same(known, wanted):
                tolerations[place] = wanted
                break
        else:
            tolerations.append(wanted)
    return tolerations


def _means_same(one: Object, other: Object) -> bool:
    fields = ("key", "effect", "value")
    same = all((one.get(field) or "") == (other.get(field) or "") for field in fields)
    return same and (one.get("operator") or "Equal") == (other.get("operator") or "Equal")


def build_pod(
    daemon_set: DaemonSet, hashed: str, node: str, name: str, generate_name: str
) -> Object:
    """Build the pod of a node; the scheduler finds no other node for it."""
    template = daemon_set.spec["template"]
    given = template.get("metadata") or {}
    kept = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
    labels = {**(given.get("labels") or {})}
    if (generation := daemon_set.template_generation) is not None:
        labels[GENERATION_LABEL] = str(generation)
    labels[HASH_LABEL] = hashed
    spec = {
        **daemon_set.pod_spec,
        "affinity": build_affinity(daemon_set.pod_spec.get("affinity"), node),
        "tolerations": build_tolerations(daemon_set),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": generate_name,
            "namespace": daemon_set.obj["metadata"]["namespace"],
            "labels": labels,
            **kept,
            "ownerReferences": [build_owner_reference(daemon_set.obj)],
        },
        "spec": spec,
    }


def build_affinity(affinity: Object | None, node: str) -> Object:
    """Build an affinity that requires one node: what the template requires was asked already."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    of_nodes = {**((affinity or {}).get("nodeAffinity") or {}), _REQUIRED: required}
    return {**(affinity or {}), "nodeAffinity": of_nodes}


def target_node(pod: Object) -> str | None:
    """Return the node that a pod is on, or that it was made for; None where it says neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    of_nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            values: list[str] = field.get("values") or []
            if field.get("key") == "metadata.name" and field.get("operator") == "In":
                return str(values[0]) if len(values) == 1 else None
    return None
