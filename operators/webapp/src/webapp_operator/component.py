"""What Dapr needs of a web application: annotations of its pods, and a Component for its state."""

from __future__ import annotations

import kubewright as kw
from webapp_operator.models import ComponentMetadata, Guestbook, MyApp, StateStoreSpec

COMPONENT = kw.Resource("dapr.io", "v1alpha1", "Component", "components")

_DEFAULTS = {"redis": {"redisHost": "redis:6379"}}
"""What a state store cannot do without, where it has a usual value."""


def app_id(app: Guestbook | MyApp) -> str:
    """Return the name of an application in Dapr."""
    given = app.spec.dapr_app_id if isinstance(app, Guestbook) else app.spec.dapr.app_id
    return given or app.metadata.name


def build_annotations(app: Guestbook | MyApp) -> dict[str, str]:
    """Return what makes Dapr put its sidecar beside the application."""
    return {"dapr.io/enabled": "true", "dapr.io/app-id": app_id(app)}


def component_name(app: Guestbook | MyApp) -> str:
    """Return the name of the Component of an application's state store."""
    return f"{app.metadata.name}-state"


def build_component(app: Guestbook | MyApp, labels: dict[str, str]) -> kw.Object:
    """Build the Component of the state store, for this application alone.

    Without scopes every sidecar of the namespace would load it, with its passwords.
    """
    store: StateStoreSpec = app.spec if isinstance(app, Guestbook) else app.spec.dapr
    return {
        "apiVersion": COMPONENT.api_version,
        "kind": COMPONENT.kind,
        "metadata": {"name": component_name(app), "labels": labels},
        "spec": {
            "type": f"state.{store.state_store}",
            "version": "v1",
            "metadata": build_metadata(store),
        },
        "scopes": [app_id(app)],
    }


def build_metadata(store: StateStoreSpec) -> list[kw.Object]:
    """Return the settings of a state store: those that are given, and what it needs besides."""
    given = {item.name for item in store.state_store_metadata}
    defaults = _DEFAULTS.get(store.state_store, {})
    added = [{"name": name, "value": text} for name, text in defaults.items() if name not in given]
    return [*added, *map(_dump, store.state_store_metadata)]


def _dump(item: ComponentMetadata) -> kw.Object:
    return item.model_dump(by_alias=True, exclude_none=True)
