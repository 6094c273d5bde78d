"""The operator that bench-peers asks of every framework: three children and a status per Widget.

kubewright run benchmarks/widget_operator.py
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, Field

import kubewright as kw
from kubewright.api import builtin

REVISION = "bench.kubewright.dev/revision"


class WidgetSpec(BaseModel):
    replicas: int = Field(ge=0, description="Pods of the Deployment.")
    revision: int = Field(description="Goes into all that changes.")
    text: str = Field("", description="Goes into the ConfigMap and the environment.")


class WidgetStatus(kw.Status):
    ready: int | None = Field(None, description="How many children are in place.")


class Widget(
    kw.CustomResource[WidgetSpec, WidgetStatus], group="bench.kubewright.dev", version="v1"
):
    """Something with three children."""


operator = kw.Operator("widget-operator")


def _child(widget: Widget, api_version: str, kind: str, **rest: object) -> kw.Object:
    metadata = {
        "name": widget.metadata.name,
        "labels": {"app.kubernetes.io/name": widget.metadata.name},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


@operator.desired(Widget, owns=[builtin.CONFIG_MAP, builtin.SERVICE, builtin.DEPLOYMENT])
def children(widget: Widget) -> Iterable[kw.Object]:
    spec, name = widget.spec, widget.metadata.name
    own = {"app.kubernetes.io/name": name}
    labels = {"app.kubernetes.io/managed-by": operator.name, **own}
    yield _child(
        widget, "v1", "ConfigMap", data={"revision": str(spec.revision), "text": spec.text}
    )
    port = {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}
    yield _child(
        widget, "v1", "Service", spec={"clusterIP": "None", "selector": own, "ports": [port]}
    )
    container = {
        "name": "main",
        "image": "bench.invalid/widget:1",
        "ports": [{"name": "http", "protocol": "TCP", "containerPort": 8080}],
        "env": [{"name": "TEXT", "value": spec.text}],
        "envFrom": [{"configMapRef": {"name": name}}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
    }
    template = {
        "metadata": {"labels": labels, "annotations": {REVISION: str(spec.revision)}},
        "spec": {"containers": [container]},
    }
    deployment = {
        "replicas": spec.replicas,
        "selector": {"matchLabels": own},
        "template": template,
    }
    yield _child(widget, "apps/v1", "Deployment", spec=deployment)


@operator.status(Widget)
def status(widget: Widget, children: kw.Children) -> WidgetStatus:
    return WidgetStatus(ready=len(children))
