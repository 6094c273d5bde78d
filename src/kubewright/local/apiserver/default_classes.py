"""What the server adds to new claims, volumes, ingresses, nodes and signing requests."""

from __future__ import annotations

from kubewright.api.errors import Forbidden, StatusDetails
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.exchange import User
from kubewright.local.apiserver.storage import decode_json, key_prefix

_STORAGE = "storageclass.kubernetes.io/is-default-class"
_STORAGE_BETA = "storageclass.beta.kubernetes.io/is-default-class"
_INGRESS = "ingressclass.kubernetes.io/is-default-class"
_PROTECTION = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}
_NOT_READY = "node.kubernetes.io/not-ready"


class DefaultClasses:
    """DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection, TaintNodes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Complete a new claim, volume, ingress or node."""
        obj = attributes.obj
        if attributes.operation != "CREATE" or attributes.subresource or obj is None:
            return
        group, plural = attributes.kind.resource.group, attributes.kind.resource.plural
        if group == "" and plural in _PROTECTION:
            _protect(obj, _PROTECTION[plural])
        if group == "" and plural == "persistentvolumeclaims":
            self._set_storage_class(obj)
        elif group == "networking.k8s.io" and plural == "ingresses":
            self._set_ingress_class(obj)
        elif group == "" and plural == "nodes":
            _taint(obj)
        elif group == "certificates.k8s.io" and plural == "certificatesigningrequests":
            _sign_name(obj, attributes.user)

    async def validate(self, attributes: Attributes) -> None:
        """Refuse to grow a claim whose class does not allow it (PersistentVolumeClaimResize)."""
        resource = attributes.kind.resource
        if resource.group or resource.plural != "persistentvolumeclaims":
            return
        obj, old = attributes.obj, attributes.old
        if obj is None or old is None or attributes.subresource:
            return
        if _requested(old) < _requested(obj) and not self._may_grow(old):
            raise Forbidden(
                f'persistentvolumeclaims "{attributes.name}" is forbidden: only dynamically '
                "provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize",
                StatusDetails(name=attributes.name, kind="persistentvolumeclaims"),
            )

    def _may_grow(self, claim: Object) -> bool:
        name = (claim.get("spec") or {}).get("storageClassName")
        version = self._backend.store.get(
            key_prefix("storage.k8s.io", "storageclasses") + str(name)
        )
        stored = decode_json(version.value or b"{}") if version else {}
        return bool(stored.get("allowVolumeExpansion"))

    def _set_storage_class(self, claim: Object) -> None:
        spec = claim.setdefault("spec", {})
        annotations = claim["metadata"].get("annotations") or {}
        if "storageClassName" in spec or "volume.beta.kubernetes.io/storage-class" in annotations:
            return
        name = self._find_default("storage.k8s.io", "storageclasses", (_STORAGE, _STORAGE_BETA))
        if name:
            spec["storageClassName"] = name

    def _set_ingress_class(self, ingress: Object) -> None:
        spec = ingress.setdefault("spec", {})
        annotations = ingress["metadata"].get("annotations") or {}
        if "ingressClassName" in spec or "kubernetes.io/ingress.class" in annotations:
            return
        name = self._find_default("networking.k8s.io", "ingressclasses", (_INGRESS,))
        if name:
            spec["ingressClassName"] = name

    def _find_default(self, group: str, plural: str, marks: tuple[str, ...]) -> str:
        """Return the newest class that is marked as default; empty where none is."""
        found: list[tuple[int, str]] = []
        for item in self._backend.store.scan(key_prefix(group, plural)):
            metadata = decode_json(item.value)["metadata"]
            annotations = metadata.get("annotations") or {}
            if any(annotations.get(mark) == "true" for mark in marks):
                found.append((item.version.create_revision, metadata["name"]))
        return max(found, default=(0, ""))[1]


def _requested(claim: Object) -> Quantity:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return Quantity(requests.get("storage") or "0")


def _protect(obj: Object, finalizer: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def _taint(node: Object) -> None:
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(t.get("key") == _NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _sign_name(request: Object, user: User) -> None:
    """Write into a certificate signing request who makes it, whatever it says itself."""
    spec = request.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
