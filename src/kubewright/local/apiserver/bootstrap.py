"""What a cluster has from its first moment.

These are namespaces, the Service of the API itself, and the two highest PriorityClasses.
"""

from __future__ import annotations

from kubewright.api.errors import AlreadyExists
from kubewright.api.resource import Object
from kubewright.local.apiserver.authentication import ADMIN
from kubewright.local.apiserver.exchange import Request, encode_json
from kubewright.local.apiserver.server import APIServer
from kubewright.local.apiserver.storage import decode_json

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVICE_IP = "10.96.0.1"
_CLUSTER_CRITICAL = (
    "Used for system critical pods that must run in the cluster, but can be moved to another node "
    "if necessary."
)
_NODE_CRITICAL = "Used for system critical pods that must not be moved from their current node."
_PRIORITY_CLASSES = (
    ("system-cluster-critical", 2000000000, _CLUSTER_CRITICAL),
    ("system-node-critical", 2000001000, _NODE_CRITICAL),
)
_SCHEDULING = "scheduling.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_USER_AGENT = "kube-apiserver/kubewright"


async def ensure_first_objects(server: APIServer) -> None:
    """Create what is missing; what is there stays as it is."""
    for namespace in NAMESPACES:
        if server.store.get(f"/registry/core/namespaces/{namespace}") is None:
            await _create(server, "/api/v1/namespaces", _namespace(namespace))
    if server.store.get("/registry/core/services/default/kubernetes") is None:
        await _create(server, "/api/v1/namespaces/default/services", _kubernetes_service())
    for name, value, description in _PRIORITY_CLASSES:
        if server.store.get(f"/registry/{_SCHEDULING}/priorityclasses/{name}") is None:
            obj = _priority_class(name, value, description)
            await _create(server, f"/apis/{_SCHEDULING}/v1/priorityclasses", obj)


async def ensure_roles(server: APIServer) -> None:
    """Create the roles and bindings that RBAC begins with; what is there stays as it is."""
    from kubewright.local.apiserver.rbac_bootstrap import bootstrap_objects

    for plural, obj in bootstrap_objects():
        name = obj["metadata"]["name"]
        if server.store.get(f"/registry/{_RBAC}/{plural}/{name}") is None:
            await _create(server, f"/apis/{_RBAC}/v1/{plural}", obj)


async def ensure_config_map(server: APIServer, config_map: Object) -> None:
    """Create a ConfigMap, or bring one that is there up to date."""
    namespace, name = (config_map["metadata"][key] for key in ("namespace", "name"))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    version = server.store.get(f"/registry/core/configmaps/{namespace}/{name}")
    if version is None:
        await _create(server, path, config_map)
    elif decode_json(version.value or b"{}").get("data") != config_map["data"]:
        await _send(server, "PUT", f"{path}/{name}", config_map)


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _priority_class(name: str, value: int, description: str) -> Object:
    return {
        "apiVersion": f"{_SCHEDULING}/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    }


def _kubernetes_service() -> Object:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "clusterIP": SERVICE_IP,
            "clusterIPs": [SERVICE_IP],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }


async def _create(server: APIServer, path: str, obj: Object) -> None:
    await _send(server, "POST", path, obj)


async def _send(server: APIServer, method: str, path: str, obj: Object) -> None:
    request = Request(
        method,
        path,
        headers={"content-type": ["application/json"], "user-agent": [_USER_AGENT]},
        body=encode_json(obj),
    )
    answer = await server.handle(request, ADMIN)
    body = getattr(answer, "body", b"")
    if answer.status not in (200, 201, AlreadyExists.default_code):
        raise RuntimeError(f"{path}: {answer.status} {body.decode()}")
