"""What the scheduler reads beside nodes and pods: claims, namespaces, budgets, owners, Services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.local.controllers.label_selector import LabelSelector, Requirement
from kubewright.local.controllers.scheduler.claims import NO_CLAIMS, PodClaims, read_claims
from kubewright.local.controllers.scheduler.filters import Incoming
from kubewright.local.controllers.scheduler.pod_info import PodInfo
from kubewright.local.controllers.scheduler.preemption import Budget
from kubewright.runtime.context import Context

_CONTROLLER = Resource("", "v1", "ReplicationController", "replicationcontrollers")

_OWNERS = {
    "ReplicaSet": builtin.REPLICA_SET,
    "StatefulSet": builtin.STATEFUL_SET,
    "ReplicationController": _CONTROLLER,
}
READS = (builtin.POD_DISRUPTION_BUDGET, builtin.SERVICE, *_OWNERS.values())
"""What is read without waking anybody."""


def read_incoming(ctx: Context, pod: Object) -> Incoming:
    """Read what decides about one pod."""
    info = PodInfo.of(pod)
    return Incoming(
        pod,
        info,
        _read_claims(ctx, pod) if info.claims else NO_CLAIMS,
        _NamespaceLabels(ctx),
        partial(_read_kin, ctx, info),
    )


def _read_claims(ctx: Context, pod: Object) -> PodClaims:
    namespace = pod["metadata"]["namespace"]
    return read_claims(
        pod,
        lambda name: ctx.get(builtin.PERSISTENT_VOLUME_CLAIM, NamespacedName(namespace, name)),
        lambda name: ctx.get(builtin.STORAGE_CLASS, NamespacedName("", name)),
        lambda name: ctx.get(builtin.PERSISTENT_VOLUME, NamespacedName("", name)),
        lambda: ctx.list(builtin.PERSISTENT_VOLUME),
    )


def read_budgets(ctx: Context) -> list[Budget]:
    """Read all disruption budgets."""
    return [Budget.of(obj) for obj in ctx.list(builtin.POD_DISRUPTION_BUDGET)]


def _read_kin(ctx: Context, info: PodInfo) -> LabelSelector:
    """Build the selector of the pods that belong together: by all Services, and by the owner."""
    requirements: list[Requirement] = []
    for service in ctx.list(builtin.SERVICE, namespace=info.key.namespace):
        labels: Mapping[str, str] = service["spec"].get("selector") or {}
        selector = LabelSelector.of_labels(labels)
        if labels and selector.matches(info.labels):
            requirements += selector.requirements
    if info.controller is not None and info.controller.kind in _OWNERS:
        key = NamespacedName(info.key.namespace, info.controller.name)
        owner = ctx.get(_OWNERS[info.controller.kind], key)
        if owner is not None and owner["metadata"]["uid"] == info.controller.uid:
            requirements += _owner_selector(owner).requirements
    return LabelSelector(tuple(requirements))


def _owner_selector(owner: Object) -> LabelSelector:
    selector = owner["spec"].get("selector") or {}
    if owner["kind"] == "ReplicationController":
        return LabelSelector.of_labels(selector)
    return LabelSelector.of(selector)


class _NamespaceLabels(Mapping[str, Mapping[str, str]]):
    """The labels of namespaces, read when they are asked for: most pods ask for none."""

    def __init__(self, ctx: Context) -> None:
        self._store = ctx.store(builtin.NAMESPACE)

    def __getitem__(self, name: str) -> Mapping[str, str]:
        entry = self._store.get(NamespacedName("", name))
        if entry is None:
            raise KeyError(name)
        return entry.meta.labels or {}

    def __iter__(self) -> Iterator[str]:
        return (entry.meta.name for entry in self._store.list())

    def __len__(self) -> int:
        return len(self._store.list())
