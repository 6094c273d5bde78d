"""The claims of a pod, and who owns them by the retention policy (KEP-1847). Pure.

Who deletes a claim is the garbage collector, so the policy is written as owner references. The
StatefulSet owns a claim that goes with it; a surplus pod owns a claim that goes with the pod.
"""

from __future__ import annotations

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.statefulset.stateful_set import StatefulSet, pod_ordinal


def build_claims(stateful_set: StatefulSet, ordinal: int) -> list[Object]:
    """Build the claims of the pod of an ordinal."""
    match_labels = (stateful_set.spec.get("selector") or {}).get("matchLabels") or {}
    claims = []
    for template in stateful_set.claim_templates:
        given = template["metadata"]
        kept = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
        metadata: Object = {
            "name": stateful_set.claim_name(template, ordinal),
            "namespace": stateful_set.obj["metadata"]["namespace"],
            "labels": {**(given.get("labels") or {}), **match_labels},
            **kept,
        }
        if stateful_set.deletes_claims_when_deleted:
            metadata["ownerReferences"] = [build_owner_reference(stateful_set.obj)]
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": template.get("spec") or {},
            }
        )
    return claims


def is_stale(stateful_set: StatefulSet, claim: Object, pod_name: str) -> bool:
    """Tell whether a claim is about to go with an earlier pod of this name.

    A new pod must not be made on it: the garbage collector would take the claim from under it.
    """
    if not stateful_set.deletes_claims_when_scaled:
        return False
    return any(_names(reference, "v1", "Pod", pod_name) for reference in _references(claim))


def has_conflict(stateful_set: StatefulSet, pod: Object, claim: Object) -> bool:
    """Tell whether somebody else manages a claim that the retention policy is to manage."""
    if not (stateful_set.deletes_claims_when_scaled or stateful_set.deletes_claims_when_deleted):
        return False
    for reference in _references(claim):
        owner = _owner_named(stateful_set, pod, reference)
        if owner is not None:
            if reference.get("uid") != owner["metadata"]["uid"]:
                return True
        elif reference.get("controller"):
            return True
    return False


def plan_owners(stateful_set: StatefulSet, pod: Object, claim: Object) -> list[Object] | None:
    """Return the owner references that a claim should have; None when it has them.

    A claim that refers to an earlier StatefulSet or pod of the same name is left alone: the garbage
    collector has it. Beside somebody else's controller the policy does not apply.
    """
    references = _references(claim)
    for reference in references:
        owner = _owner_named(stateful_set, pod, reference)
        if owner is not None and reference.get("uid") != owner["metadata"]["uid"]:
            return None
    others = [r for r in references if _owner_named(stateful_set, pod, r) is None]
    if has_conflict(stateful_set, pod, claim):
        return others if others != references else None
    wanted = [*others]
    if (owner := _wanted_owner(stateful_set, pod)) is not None:
        wanted.append(build_owner_reference(owner))
    return None if _summary(wanted) == _summary(references) else wanted


def _wanted_owner(stateful_set: StatefulSet, pod: Object) -> Object | None:
    is_surplus = pod_ordinal(pod) not in stateful_set.ordinals
    if is_surplus and stateful_set.deletes_claims_when_scaled:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
    return stateful_set.obj if stateful_set.deletes_claims_when_deleted else None


def _owner_named(stateful_set: StatefulSet, pod: Object, reference: Object) -> Object | None:
    """Return the StatefulSet or the pod when a reference has its name."""
    if _names(reference, "apps/v1", "StatefulSet", stateful_set.name):
        return stateful_set.obj
    return pod if _names(reference, "v1", "Pod", pod["metadata"]["name"]) else None


def _names(reference: Object, api_version: str, kind: str, name: str) -> bool:
    named = (reference.get("apiVersion"), reference.get("kind"), reference.get("name"))
    return named == (api_version, kind, name)


def _references(claim: Object) -> list[Object]:
    references: list[Object] = claim["metadata"].get("ownerReferences") or []
    return references


def _summary(references: list[Object]) -> set[tuple[str, bool]]:
    return {(reference["uid"], bool(reference.get("controller"))) for reference in references}
