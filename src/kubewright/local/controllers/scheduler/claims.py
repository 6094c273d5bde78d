"""Persistent volume claims of a pod, as far as they decide where it may run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kubewright.api.metadata import controller_of
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.controllers.label_selector import LabelSelector
from kubewright.local.controllers.scheduler.node_affinity import matches_terms
from kubewright.local.controllers.scheduler.node_info import NodeInfo
from kubewright.local.controllers.scheduler.refusal import Plugin, Refusal

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

_CLASS = "volume.beta.kubernetes.io/storage-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)

_WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
_NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_WRONG_ZONE = Refusal(Plugin.VOLUME_ZONE, ("node(s) had no available volume zone",))


class Binding(NamedTuple):
    """A claim and the existing volume that it gets."""

    claim: Object
    volume: Object


class VolumePlan(msgspec.Struct, frozen=True):
    """What must be written before a pod with unbound claims can run on a node."""

    bind: tuple[Binding, ...] = ()
    provision: tuple[Object, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is to be written."""
        return not self.bind and not self.provision


class PodClaims(msgspec.Struct, frozen=True):
    """What a pod's claims say.

    `message` says why the pod can be placed nowhere. `volumes` are those that its claims are bound
    to, `unbound` the claims that are bound only once a node is selected, out of the `free` volumes
    or by the provisioner of one of the `classes`. `sole_users` names the claims that one pod alone
    may use.
    """

    message: str = ""
    volumes: tuple[Object, ...] = ()
    lost: bool = False
    unbound: tuple[Object, ...] = ()
    free: tuple[Object, ...] = ()
    classes: Mapping[str, Object] = {}
    sole_users: tuple[str, ...] = ()

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """Return why the claims keep the pod from a node, if so."""
        reasons = []
        if not all(is_reachable(volume, node) for volume in self.volumes):
            reasons.append(_WRONG_NODE)
        if self.unbound and self.plan(node) is None:
            reasons.append(_NO_VOLUME)
        if self.lost:
            reasons.append(_GONE)
        if reasons:
            return Refusal(Plugin.VOLUME_BINDING, tuple(reasons))
        return None if all(_is_in_zone(v, node) for v in self.volumes) else _WRONG_ZONE

    def plan(self, node: NodeInfo) -> VolumePlan | None:
        """Return how the unbound claims get volumes on a node; None when they cannot.

        The smallest claims choose first, each the smallest volume that will do. A claim for which a
        node was selected already is provisioned there or nowhere.
        """
        bind: list[Binding] = []
        provision = []
        for claim in sorted(self.unbound, key=_requested):
            selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
            if selected and selected != node.name:
                return None
            taken = {binding.volume["metadata"]["name"] for binding in bind}
            volume = None if selected else find_volume(claim, self.free, node, taken)
            if volume is not None:
                bind.append(Binding(claim, volume))
            elif _can_provision(self.classes.get(class_name(claim)), node):
                provision.append(claim)
            else:
                return None
        return VolumePlan(tuple(bind), tuple(provision))


NO_CLAIMS = PodClaims()


def class_name(claim: Object) -> str:
    """Return the storage class that a claim or a volume names."""
    annotated = (claim["metadata"].get("annotations") or {}).get(_CLASS)
    return annotated or claim["spec"].get("storageClassName") or ""


def is_bound(claim: Object) -> bool:
    """Tell whether a claim has its volume and the volume knows it."""
    annotations = claim["metadata"].get("annotations") or {}
    completed = BIND_COMPLETED in annotations or _phase(claim) == "Bound"
    return bool(claim["spec"].get("volumeName")) and completed


def _phase(claim: Object) -> str:
    return str((claim.get("status") or {}).get("phase") or "")


def read_claims(
    pod: Object,
    find_claim: Callable[[str], Object | None],
    find_class: Callable[[str], Object | None],
    find_volume: Callable[[str], Object | None],
    list_volumes: Callable[[], Iterable[Object]],
) -> PodClaims:
    """Sort a pod's claims by what they mean for its placement."""
    found = []
    for name, is_ephemeral in _named_claims(pod):
        claim = find_claim(name)
        if problem := _find_problem(pod, name, claim, is_ephemeral):
            return PodClaims(problem)
        found.append(claim or {})
    volumes, unbound, classes = [], [], {}
    for claim in found:
        name = class_name(claim)
        storage_class = find_class(name) if name else None
        if is_bound(claim):
            volumes.append(find_volume(claim["spec"]["volumeName"]))
        elif claim["spec"].get("volumeName") or not _waits_for_consumer(storage_class):
            return PodClaims("pod has unbound immediate PersistentVolumeClaims")
        else:
            unbound.append(claim)
            classes[name] = storage_class or {}
    return PodClaims(
        volumes=tuple(volume for volume in volumes if volume is not None),
        lost=None in volumes,
        unbound=tuple(unbound),
        free=tuple(list_volumes()) if unbound else (),
        classes=classes,
        sole_users=tuple(c["metadata"]["name"] for c in found if _has_sole_user(c)),
    )


def _named_claims(pod: Object) -> Iterable[tuple[str, bool]]:
    """Yield claims by name and whether they are made for the pod; the latter come last."""
    volumes = pod["spec"].get("volumes") or ()
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"], False
    for volume in volumes:
        if "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}", True


def _find_problem(pod: Object, name: str, claim: Object | None, is_ephemeral: bool) -> str:
    if claim is None and is_ephemeral:
        return (
            f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        )
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if _phase(claim) == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim["metadata"].get("deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    owner = controller_of(claim)
    if is_ephemeral and (owner is None or owner["uid"] != pod["metadata"]["uid"]):
        namespace, holder = pod["metadata"]["namespace"], pod["metadata"]["name"]
        return (
            f"PVC {namespace}/{name} was not created for pod {namespace}/{holder} "
            "(pod is not owner)"
        )
    return ""


def _waits_for_consumer(storage_class: Object | None) -> bool:
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def _has_sole_user(claim: Object) -> bool:
    return "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ())


def is_reachable(volume: Object, node: NodeInfo) -> bool:
    """Tell whether a volume can be used on a node."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return not required or matches_terms(required.get("nodeSelectorTerms") or (), node)


def _is_in_zone(volume: Object, node: NodeInfo) -> bool:
    if not any(key in node.labels for key in _ZONES):
        return True
    labels = volume["metadata"].get("labels") or {}
    # A volume in several zones names them with two underscores between.
    return all(node.labels.get(key) in labels[key].split("__") for key in _ZONES if key in labels)


def find_volume(
    claim: Object, volumes: Sequence[Object], node: NodeInfo, taken: set[str]
) -> Object | None:
    """Return the volume made for a claim, or else the smallest free one that will do on a node."""
    best: Object | None = None
    for volume in volumes:
        if volume["metadata"]["name"] in taken or not _may_hold(claim, volume):
            continue
        if volume["spec"].get("claimRef"):
            return volume if is_reachable(volume, node) else None
        if _is_free_match(claim, volume) and is_reachable(volume, node):
            best = volume if best is None or _capacity(volume) < _capacity(best) else best
    return best


def _may_hold(claim: Object, volume: Object) -> bool:
    reference = volume["spec"].get("claimRef")
    metadata = claim["metadata"]
    if reference is not None and (
        (reference.get("namespace"), reference.get("name"))
        != (metadata["namespace"], metadata["name"])
        or reference.get("uid", metadata["uid"]) != metadata["uid"]
    ):
        return False
    modes = [obj["spec"].get("volumeMode") or "Filesystem" for obj in (claim, volume)]
    attributes = [obj["spec"].get("volumeAttributesClassName") or "" for obj in (claim, volume)]
    return (
        _capacity(volume) >= _requested(claim)
        and modes[0] == modes[1]
        and attributes[0] == attributes[1]
        and not volume["metadata"].get("deletionTimestamp")
    )


def _is_free_match(claim: Object, volume: Object) -> bool:
    selector = claim["spec"].get("selector")
    modes = set(claim["spec"].get("accessModes") or ())
    labels = volume["metadata"].get("labels")
    return (
        _phase(volume) == "Available"
        and (selector is None or LabelSelector.of(selector).matches(labels))
        and class_name(volume) == class_name(claim)
        and modes <= set(volume["spec"].get("accessModes") or ())
    )


def _requested(claim: Object) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity(str(requests.get("storage") or 0))


def _capacity(volume: Object) -> Quantity:
    return Quantity(str((volume["spec"].get("capacity") or {}).get("storage") or 0))


def _can_provision(storage_class: Object | None, node: NodeInfo) -> bool:
    if not storage_class or storage_class.get("provisioner") in (None, "", _NO_PROVISIONER):
        return False
    terms = storage_class.get("allowedTopologies") or ()
    return not terms or any(
        all(
            node.labels.get(expression["key"]) in (expression.get("values") or ())
            for expression in term.get("matchLabelExpressions") or ()
        )
        for term in terms
    )


def build_volume_binding(binding: Binding) -> Object:
    """Build the patch that gives a volume to a claim; the claim's controller does the rest."""
    claim, volume = binding.claim["metadata"], binding.volume["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim["namespace"],
        "name": claim["name"],
        "uid": claim["uid"],
        "resourceVersion": claim["resourceVersion"],
    }
    patch: Object = {
        "metadata": {"resourceVersion": volume["resourceVersion"]},
        "spec": {"claimRef": reference},
    }
    if not binding.volume["spec"].get("claimRef"):
        patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return patch
