"""The pod of an ordinal: its identity and its claims. Pure."""

from __future__ import annotations

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.history import Revision
from kubewright.local.controllers.statefulset.stateful_set import (
    POD_INDEX,
    POD_NAME,
    REVISION,
    StatefulSet,
    pod_ordinal,
)


def build_pod(stateful_set: StatefulSet, revision: Revision, ordinal: int) -> Object:
    """Build the pod of an ordinal, from the template that a revision keeps."""
    template = revision.template
    given = template.get("metadata") or {}
    name = stateful_set.pod_name(ordinal)
    kept = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
    labels = {
        **(given.get("labels") or {}),
        **build_identity(stateful_set, ordinal),
        REVISION: revision.name,
    }
    spec = {**(template.get("spec") or {}), "hostname": name}
    if subdomain := stateful_set.spec.get("serviceName"):
        spec["subdomain"] = subdomain
    if stateful_set.claim_templates:
        spec["volumes"] = build_volumes(stateful_set, ordinal, spec.get("volumes") or [])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": f"{stateful_set.name}-",
            "namespace": stateful_set.obj["metadata"]["namespace"],
            "labels": labels,
            **kept,
            "ownerReferences": [build_owner_reference(stateful_set.obj)],
        },
        "spec": spec,
    }


def build_identity(stateful_set: StatefulSet, ordinal: int) -> dict[str, str]:
    """Build the labels by which one pod can be selected."""
    return {POD_NAME: stateful_set.pod_name(ordinal), POD_INDEX: str(ordinal)}


def build_volumes(stateful_set: StatefulSet, ordinal: int, volumes: list[Object]) -> list[Object]:
    """Build a pod's volumes: its claims, then those of others that have no claim's name."""
    claims = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": stateful_set.claim_name(template, ordinal)},
        }
        for template in stateful_set.claim_templates
    ]
    taken = {volume["name"] for volume in claims}
    return [*claims, *(volume for volume in volumes if volume["name"] not in taken)]


def has_identity(stateful_set: StatefulSet, pod: Object) -> bool:
    """Tell whether a pod has the label of its name, and mounts the claims of its ordinal."""
    ordinal = pod_ordinal(pod)
    if ordinal is None:
        return True
    labels = pod["metadata"].get("labels") or {}
    if labels.get(POD_NAME) != pod["metadata"]["name"]:
        return False
    mounted = {
        volume["name"]: (volume.get("persistentVolumeClaim") or {}).get("claimName")
        for volume in pod["spec"].get("volumes") or ()
    }
    return all(
        mounted.get(template["metadata"]["name"]) == stateful_set.claim_name(template, ordinal)
        for template in stateful_set.claim_templates
    )


def restore_identity(stateful_set: StatefulSet, pod: Object) -> Object:
    """Build a pod with the labels and volumes that its name asks for."""
    ordinal = pod_ordinal(pod)
    assert ordinal is not None, "only pods of an ordinal are restored"
    labels = {**(pod["metadata"].get("labels") or {}), **build_identity(stateful_set, ordinal)}
    spec = pod["spec"]
    if stateful_set.claim_templates:
        volumes = build_volumes(stateful_set, ordinal, spec.get("volumes") or [])
        spec = {**spec, "volumes": volumes}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}
