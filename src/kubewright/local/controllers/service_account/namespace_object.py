"""Objects that each namespace has, made again when deleted and put right when changed."""

from __future__ import annotations

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import AlreadyExists, NamespaceTerminating, NotFound
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.cache import Cache
from kubewright.cache.entry import Change
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result

ROOT_CA = "kube-root-ca.crt"
DEFAULT_ACCOUNT = "default"

_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
        "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
        "guaranteed across distributions of Kubernetes clusters."
    )
}


class NamespaceObject(msgspec.Struct, frozen=True):
    """An object to keep in every namespace: its name, and the fields beside the metadata."""

    resource: Resource
    name: str
    annotations: dict[str, str] = {}
    content: Object = {}

    def build(self, namespace: str) -> Object:
        """Build the object for a namespace."""
        metadata: Object = {"name": self.name, "namespace": namespace}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": metadata,
            **self.content,
        }

    def build_repair(self, live: Object) -> Object | None:
        """Build what a changed object should be, or None when nothing is to be put right."""
        annotations = live["metadata"].get("annotations") or {}
        content_right = all(live.get(name) == value for name, value in self.content.items())
        if content_right and annotations.items() >= self.annotations.items():
            return None
        metadata = {**live["metadata"], "annotations": {**annotations, **self.annotations}}
        return {**live, "metadata": metadata, **self.content}


def build_default_account_controller() -> Controller:
    """Build the controller that keeps the ServiceAccount `default` in every namespace."""
    account = NamespaceObject(builtin.SERVICE_ACCOUNT, DEFAULT_ACCOUNT)
    return _build_controller("serviceaccount-controller", account)


def build_root_ca_controller(root_ca: str) -> Controller:
    """Build the controller that publishes the cluster's CA (PEM text) to every namespace."""
    published = NamespaceObject(
        builtin.CONFIG_MAP, ROOT_CA, _DESCRIPTION, {"data": {"ca.crt": root_ca}}
    )
    return _build_controller("root-ca-certificate-publisher-controller", published)


def _build_controller(name: str, wanted: NamespaceObject) -> Controller:
    keeper = _Keeper(wanted)
    controller = Controller(name, builtin.NAMESPACE, keeper.reconcile, setup=keeper.set_up)
    keeper.controller = controller
    return controller


class _Keeper:
    """Keeps one object in each namespace, watching only objects of its name."""

    def __init__(self, wanted: NamespaceObject) -> None:
        self._wanted = wanted
        self.controller: Controller | None = None

    def set_up(self, cache: Cache) -> None:
        # The API server selects by name: a cluster's other ConfigMaps are none of our business.
        selector = {"metadata.name": self._wanted.name}
        self._store = cache.store(self._wanted.resource, fields=selector)
        self._store.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if self.controller is not None:
            self.controller.enqueue(NamespacedName("", change.entry.meta.namespace))

    async def reconcile(self, key: NamespacedName, ctx: Context) -> Result | None:
        namespace = ctx.get(builtin.NAMESPACE, key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp") is not None:
            return None
        entry = self._store.get(NamespacedName(key.name, self._wanted.name))
        try:
            if entry is None:
                await ctx.client.create(self._wanted.build(key.name))
            elif repaired := self._wanted.build_repair(entry.object()):
                await ctx.client.replace(repaired)
        except (AlreadyExists, NotFound):
            # The store is behind; what it is about to see brings the next look.
            return None
        except NamespaceTerminating:
            pass  # it needs none of this any more
        return None
