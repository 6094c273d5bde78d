"""Admission of pods: service account and its token, priority, default tolerations."""

from __future__ import annotations

from typing import Any

from kubewright.api.errors import Forbidden, StatusDetails
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.storage import decode_json, key_prefix

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_MIRROR = "kubernetes.io/config.mirror"
_SYSTEM_CLASSES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_TOLERATION_SECONDS = 300


def new_pod(attributes: Attributes) -> Object | None:
    """Return the pod that is being created; None for any other write."""
    resource = attributes.kind.resource
    is_pod = resource.group == "" and resource.plural == "pods"
    if not is_pod or attributes.operation != "CREATE" or attributes.subresource:
        return None
    return attributes.obj


def forbidden_pod(attributes: Attributes, message: str) -> Forbidden:
    """Build the refusal of a pod."""
    resource = attributes.kind.resource
    return Forbidden(
        f'{resource.group_resource} "{attributes.name}" is forbidden: {message}',
        StatusDetails(name=attributes.name, group=resource.group, kind=resource.plural),
    )


class ServiceAccountAdmission:
    """Gives pods their account, its image pull secrets and the volume with its token."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in the account, and refuse one that is not there."""
        pod = new_pod(attributes)
        if pod is None:
            return
        spec = pod.setdefault("spec", {})
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        if _MIRROR in annotations:
            if spec.get("serviceAccountName"):
                raise forbidden_pod(attributes, "a mirror pod may not reference service accounts")
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._read(attributes, name)
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is not False:
            self._mount_token(spec)

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing more."""

    def _read(self, attributes: Attributes, name: str) -> Object:
        key = f"{key_prefix('', 'serviceaccounts')}{attributes.namespace}/{name}"
        version = self._backend.store.get(key)
        if version is None:
            raise forbidden_pod(
                attributes,
                f"error looking up service account {attributes.namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )
        return decode_json(version.value or b"{}")

    def _mount_token(self, spec: Object) -> None:
        """Mount the token into each container that has nothing at its place."""
        volumes = spec.get("volumes") or []
        existing = next((v for v in volumes if v["name"].startswith("kube-api-access-")), None)
        name = existing["name"] if existing else self._backend.generate_name("kube-api-access-")
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
        mounted = False
        for field in ("initContainers", "containers"):
            for container in spec.get(field) or ():
                mounts = container.get("volumeMounts") or []
                if any(m.get("mountPath") == TOKEN_PATH for m in mounts):
                    continue
                container["volumeMounts"] = [*mounts, dict(mount)]
                mounted = True
        if mounted and not existing:
            spec["volumes"] = [*volumes, _token_volume(name)]


def _token_volume(name: str) -> Object:
    namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": authority},
                {"downwardAPI": {"items": [{"path": "namespace", **namespace}]}},
            ],
            "defaultMode": 420,
        },
    }


class PodPriority:
    """Turns a pod's priority class into a number (Priority admission)."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in priority and preemption policy."""
        pod = new_pod(attributes)
        if pod is None:
            self._check_class(attributes)
            return
        spec = pod["spec"]
        name = spec.get("priorityClassName") or ""
        found = self._default() if not name else self._find(attributes, name)
        value, policy = found.get("value", 0), found.get("preemptionPolicy")
        given = spec.get("priority")
        if given is not None and given != value:
            raise forbidden_pod(
                attributes,
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        if not name and found.get("metadata"):
            spec["priorityClassName"] = found["metadata"]["name"]
        spec["priority"] = value
        spec["preemptionPolicy"] = policy or "PreemptLowerPriority"

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing more."""

    def _find(self, attributes: Attributes, name: str) -> Object:
        if name in _SYSTEM_CLASSES:
            return {"value": _SYSTEM_CLASSES[name]}
        key = key_prefix("scheduling.k8s.io", "priorityclasses") + name
        version = self._backend.store.get(key)
        if version is None:
            raise forbidden_pod(attributes, f"no PriorityClass with name {name} was found")
        return decode_json(version.value or b"{}")

    def _default(self) -> Object:
        defaults = [item for item in self._classes() if item.get("globalDefault")]
        return min(defaults, key=lambda item: item.get("value", 0), default={})

    def _classes(self) -> list[Object]:
        prefix = key_prefix("scheduling.k8s.io", "priorityclasses")
        return [decode_json(item.value) for item in self._backend.store.scan(prefix)]

    def _check_class(self, attributes: Attributes) -> None:
        """Refuse a second class that is the default of all."""
        resource = attributes.kind.resource
        obj = attributes.obj
        if resource.plural != "priorityclasses" or obj is None or not obj.get("globalDefault"):
            return
        for other in self._classes():
            name = other["metadata"]["name"]
            if other.get("globalDefault") and name != attributes.name:
                raise forbidden_pod(
                    attributes,
                    f"PriorityClass {name} is already marked as default. Only one default can "
                    "exist",
                )


class DefaultTolerationSeconds:
    """Lets pods stay for five minutes on a node that is gone."""

    async def mutate(self, attributes: Attributes) -> None:
        """Add the two tolerations unless the pod has its own."""
        pod = new_pod(attributes)
        if pod is None:
            return
        spec = pod["spec"]
        tolerations: list[Any] = list(spec.get("tolerations") or [])
        for condition in ("not-ready", "unreachable"):
            key = f"node.kubernetes.io/{condition}"
            if not any(_tolerates(toleration, key) for toleration in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": _TOLERATION_SECONDS,
                    }
                )
        spec["tolerations"] = tolerations

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing more."""


def _tolerates(toleration: Object, key: str) -> bool:
    is_key = toleration.get("key") == key or not toleration.get("key")
    return is_key and toleration.get("effect") in (None, "", "NoExecute")
