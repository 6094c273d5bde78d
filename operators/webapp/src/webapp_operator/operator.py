"""The operator: what should exist for each application, and what its status says."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from kubewright import builtin
from webapp_operator.component import (
    COMPONENT,
    app_id,
    build_annotations,
    build_component,
    component_name,
)
from webapp_operator.deployment import (
    build_deployment,
    build_labels,
    build_workload_status,
    tell_of_pods,
)
from webapp_operator.models import DaprStatus, Guestbook, MyApp, SimpleApp, WorkloadStatus

operator = kw.Operator("webapp-operator")

# Dapr may be installed after the application, or never: its pods run meanwhile.
_COMPONENTS = kw.ChildKind(COMPONENT, on_missing="wait")
# The pods belong to the Deployment's ReplicaSets: their labels lead back to the application.
_pods = kw.Watch(builtin.POD, kw.map_to_instance)


@operator.desired(SimpleApp, owns=[builtin.DEPLOYMENT])
def build_simple_app(app: SimpleApp) -> Iterable[kw.Object]:
    """Build the Deployment, named as the object."""
    yield build_deployment(app, app.metadata.name, app.spec)


@operator.status(SimpleApp, watches=[_pods])
def build_simple_app_status(app: SimpleApp, children: kw.Children) -> WorkloadStatus:
    """Compute the status from the Deployment and its pods."""
    return build_workload_status(app, children, app.metadata.name)


@operator.desired(Guestbook, owns=[builtin.DEPLOYMENT, _COMPONENTS])
def build_guestbook(app: Guestbook) -> Iterable[kw.Object]:
    """Build the Deployment and the Component of its state."""
    return build_with_dapr(app)


@operator.status(Guestbook, watches=[_pods])
def build_guestbook_status(app: Guestbook, children: kw.Children) -> DaprStatus:
    """Compute the status from the Deployment, its pods and the Component."""
    return build_dapr_status(app, children)


@operator.desired(MyApp, owns=[builtin.DEPLOYMENT, _COMPONENTS])
def build_my_app(app: MyApp) -> Iterable[kw.Object]:
    """Build the Deployment and the Component of its state."""
    return build_with_dapr(app)


@operator.status(MyApp, watches=[_pods])
def build_my_app_status(app: MyApp, children: kw.Children) -> DaprStatus:
    """Compute the status from the Deployment, its pods and the Component."""
    return build_dapr_status(app, children)


def build_with_dapr(app: Guestbook | MyApp) -> Iterable[kw.Object]:
    """Build the Component first: a sidecar reads it as it starts, and not again."""
    yield build_component(app, build_labels(app))
    yield build_deployment(app, deployment_name(app), app.spec, build_annotations(app))


def build_dapr_status(app: Guestbook | MyApp, children: kw.Children) -> DaprStatus:
    """Compute the status of an application with Dapr."""
    component = children.get(COMPONENT, component_name(app))
    return DaprStatus(
        **tell_of_pods(app, children, deployment_name(app)),
        app_id=app_id(app),
        state_store=component_name(app) if component else "",
    )


def deployment_name(app: Guestbook | MyApp) -> str:
    """Return the name of the Deployment of an application with Dapr."""
    return f"{app.metadata.name}-deployment"
