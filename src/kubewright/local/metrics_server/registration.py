"""The objects by which a cluster finds the metrics API. Pure but for what is `ensure`d."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence

from kubewright.api.errors import NotFound
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.local.metrics_server.metrics_objects import GROUP, VERSION

NAME, NAMESPACE = "metrics-server", "kube-system"
SERVER_NAME = f"{NAME}.{NAMESPACE}.svc"

API_SERVICE = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)

_LABELS = {"k8s-app": NAME}


def build_registration(host: str, port: int, authority: bytes) -> Sequence[Object]:
    """Build the Service, the APIService and the role that lets people read metrics.

    The server runs beside the API server and not in a pod: the Service is another name of its
    host, which API servers resolve themselves.

    Args:
        host: The DNS name under which the API server reaches it.
        port: Where it listens.
        authority: The PEM text of what signs its certificate.
    """
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS},
            "spec": {"type": "ExternalName", "externalName": host},
        },
        _build_role(),
        _build_api_service(port, authority),
    )


def _build_role() -> Object:
    aggregated = {
        f"rbac.authorization.k8s.io/aggregate-to-{role}": "true"
        for role in ("admin", "edit", "view")
    }
    rule = {"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {**_LABELS, **aggregated},
        },
        "rules": [rule],
    }


def _build_api_service(port: int, authority: bytes) -> Object:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": f"{VERSION}.{GROUP}", "labels": _LABELS},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority).decode(),
            "service": {"name": NAME, "namespace": NAMESPACE, "port": port},
        },
    }


async def ensure_registration(client: Client, objects: Sequence[Object]) -> None:
    """Apply the objects.

    Raises:
        APIError: the API server refuses one.
    """
    for obj in objects:
        await client.apply(obj, field_manager=NAME)


async def ensure_no_registration(client: Client) -> None:
    """Delete the APIService that an earlier run with nodes has left.

    One that nobody answers for makes discovery incomplete, and that keeps namespaces from ending.
    """
    with contextlib.suppress(NotFound):
        await client.delete(API_SERVICE, f"{VERSION}.{GROUP}")
