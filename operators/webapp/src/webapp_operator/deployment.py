"""The Deployment of a web application: pure functions from an object to its pods.

The pods fit the restricted Pod Security Standard, and most images run in them all the same, also
those that were made to run as root. Three decisions make it so:

- The user is a number of ours: a node cannot tell whether an image's own user is root when it is a
  name. Its group is the image's for that number, else 0, whose files many images let it write.
- What images expect to write as root, above all the folder of their pid file, is an empty volume.
- Ports below 1024 are open to all: the one sysctl for it is allowed at that level.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import kubewright as kw
from webapp_operator.models import Guestbook, MyApp, SimpleApp, WorkloadSpec, WorkloadStatus

WebApp: TypeAlias = SimpleApp | Guestbook | MyApp
CONTAINER = "app"
_SCRATCH = "scratch"


def build_selector(app: WebApp) -> dict[str, str]:
    """Return the labels that tell this application's pods from all others; they never change."""
    return kw.build_instance_labels(app.resource.kind.lower(), app.metadata.name)


def build_labels(app: WebApp) -> dict[str, str]:
    """Return the labels that the application's objects carry; `app` is what people select by."""
    return {
        "app": app.metadata.name,
        **build_selector(app),
        "app.kubernetes.io/managed-by": "webapp-operator",
    }


def build_deployment(
    app: WebApp, name: str, spec: WorkloadSpec, annotations: dict[str, str] | None = None
) -> kw.Object:
    """Build the Deployment; the annotations stand on it and on its pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": build_labels(app), "annotations": annotations},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": build_selector(app)},
            "template": {
                "metadata": {"labels": build_labels(app), "annotations": annotations},
                "spec": build_pod_spec(spec),
            },
        },
    }


def build_pod_spec(spec: WorkloadSpec) -> kw.Object:
    """Build the pod: one container, at the restricted level."""
    container = {
        "name": CONTAINER,
        "image": spec.image,
        "volumeMounts": [build_mount(path) for path in spec.writable_paths] or None,
    }
    ports = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
    pod = {
        "securityContext": {"sysctls": [ports]},
        "containers": [container],
        "volumes": [{"name": _SCRATCH, "emptyDir": {}}] if spec.writable_paths else None,
    }
    return kw.restrict_pod(pod, user=spec.run_as_user)


def build_mount(path: str) -> kw.Object:
    """Build the mount of a folder: a part of the pod's one volume, under the folder's own path."""
    return {"name": _SCRATCH, "mountPath": path, "subPath": path.strip("/")}


def tell_of_pods(app: WebApp, children: kw.Children, name: str) -> dict[str, Any]:
    """Return the fields of `WorkloadStatus`, read from the Deployment and its pods."""
    deployment = children.get(kw.builtin.DEPLOYMENT, name) or {}
    counts = deployment.get("status") or {}
    selector = build_selector(app)
    pods = children.find(kw.builtin.POD, selector)
    return {
        "replicas": counts.get("replicas") or 0,
        "ready_replicas": counts.get("readyReplicas") or 0,
        "selector": kw.format_selector(selector),
        "conditions": [kw.build_pods_condition(pods).to_object()],
    }


def build_workload_status(app: WebApp, children: kw.Children, name: str) -> WorkloadStatus:
    """Compute the status of an application that has nothing but pods."""
    return WorkloadStatus(**tell_of_pods(app, children, name))
