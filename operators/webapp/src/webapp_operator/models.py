"""The kinds SimpleApp, Guestbook and MyApp: what a user may ask for, and what is answered."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

import kubewright as kw

MAX_NAME = 63
"""A name becomes the value of a label."""

_DOMAIN = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?"
_PART = r"[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"@[a-z0-9]+:[a-f0-9]{32,}"
_IMAGE = f"^({_DOMAIN}/)?{_PART}(/{_PART})*({_TAG})?({_DIGEST})?$"
# Dapr makes a Service of it, `APP-ID-dapr`: 63 characters in all.
_APP_ID = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_MAX_APP_ID = 58
_STORE = "^[a-z0-9]+([.-][a-z0-9]+)*$"
_PATH = r"^(/[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"

NAME = kw.Rule(
    f"size(self.metadata.name) <= {MAX_NAME}",
    f"metadata.name: give it {MAX_NAME} characters at most, for it becomes a label of the pods",
)
_IMAGE_RULE = kw.Rule(
    f"self.matches('{_IMAGE}')",
    "write an image as [REGISTRY/]NAME[:TAG][@DIGEST] in lower case, such as nginx:1.27 or "
    "ghcr.io/org/app:v2",
)
_APP_ID_RULE = kw.Rule(
    f"self.matches('{_APP_ID}')",
    "write lower-case letters, digits and '-', with a letter or digit at both ends, such as "
    "guestbook",
)
_STORE_RULE = kw.Rule(
    f"self.matches('{_STORE}') && !self.startsWith('state.')",
    "write the name of a Dapr state store without 'state.', such as in-memory, redis or postgresql",
)
_PATHS_RULE = kw.Rule(
    f"self.all(path, path.matches('{_PATH}'))",
    "write absolute paths of folders without '.' and '..', such as /run or /var/cache/nginx",
)
_ITEM_RULE = kw.Rule(
    "has(self.value) != has(self.secretKeyRef)", "give either a value or a secretKeyRef"
)


def _build_app_id_rule(field: str) -> kw.Rule:
    """Build the rule that an object has an app id: one of its own, or a name that can be one."""
    given = f"has(self.spec.{field})"
    if "." in field:
        given = f"has(self.spec.{field.partition('.')[0]}) && {given}"
    return kw.Rule(
        f"({given}) || (size(self.metadata.name) <= {_MAX_APP_ID} && "
        f"self.metadata.name.matches('{_APP_ID}'))",
        f"spec.{field}: give one, for metadata.name cannot be an app id of Dapr: it has '.' or "
        f"more than {_MAX_APP_ID} characters",
    )


class WorkloadSpec(kw.Model):
    """What is said of the pods, whatever the kind."""

    replicas: int = Field(default=1, ge=0, le=1000, description="Number of pods.")
    image: str = Field(
        default="nginx:latest",
        max_length=512,
        description="Image of the application.",
        json_schema_extra=kw.build_rules(_IMAGE_RULE),
    )
    run_as_user: int = Field(
        default=65532,
        ge=1,
        le=2**31 - 1,
        description="User id that the application runs as; never that of root.",
    )
    writable_paths: list[Annotated[str, Field(max_length=256)]] = Field(
        default=["/run", "/var/cache/nginx"],
        max_length=16,
        description="Folders that any user may write to; they begin empty in each pod.",
        json_schema_extra={"uniqueItems": True, **kw.build_rules(_PATHS_RULE)},
    )


class WorkloadStatus(kw.Status):
    """What the operator answers."""

    replicas: int = Field(default=0, description="Number of pods that exist.")
    ready_replicas: int = Field(default=0, description="Number of pods that are ready.")
    selector: str = Field(default="", description="Label selector of the pods, for autoscalers.")


class SecretKeyRef(kw.Model):
    """Where a secret value is."""

    name: str = Field(max_length=253, description="Name of a Secret in the same namespace.")
    key: str = Field(max_length=253, description="Key in its data.")


class ComponentMetadata(kw.Model, json_schema_extra=kw.build_rules(_ITEM_RULE)):
    """One setting of a Dapr component, as Dapr writes it."""

    name: str = Field(min_length=1, max_length=253, description="Name of the setting.")
    value: str | None = Field(default=None, max_length=4096, description="Its value.")
    secret_key_ref: SecretKeyRef | None = Field(
        default=None, description="The Secret that holds its value."
    )


class StateStoreSpec(kw.Model):
    """Which state store Dapr gives to the application."""

    state_store: str = Field(
        default="in-memory",
        max_length=63,
        description="Kind of the state store, as Dapr names it after 'state.'.",
        json_schema_extra=kw.build_rules(_STORE_RULE),
    )
    state_store_metadata: list[ComponentMetadata] = Field(
        default=[],
        max_length=64,
        description="Settings of the state store; of redis, redisHost is redis:6379 by default.",
    )


class DaprSpec(StateStoreSpec):
    """What Dapr is told."""

    app_id: str | None = Field(
        default=None,
        max_length=_MAX_APP_ID,
        description="Name of the application in Dapr; that of the object by default.",
        json_schema_extra=kw.build_rules(_APP_ID_RULE),
    )


class DaprStatus(WorkloadStatus):
    """What the operator answers."""

    app_id: str = Field(default="", description="Name of the application in Dapr.")
    state_store: str = Field(
        default="", description="Name of the Component of its state store; empty before it exists."
    )


_READY_COLUMNS = [
    kw.Column("Ready", kw.ready),
    kw.Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
    kw.Column("Pods", '.status.conditions[?(@.type=="PodsHealthy")].message', priority=1),
]
_COUNT_COLUMNS = [
    kw.Column("Replicas", "spec.replicas", description="Number of pods asked for."),
    kw.Column("Running", "status.readyReplicas", description="Number of pods that are ready."),
]
_DAPR_COLUMNS = [
    *_COUNT_COLUMNS,
    kw.Column("App-ID", "status.appId", description="Name of the application in Dapr."),
    kw.Column("State-Store", "status.stateStore", description="Component of its state store."),
    *_READY_COLUMNS,
]


class SimpleAppSpec(WorkloadSpec):
    """What a user asks for."""


class SimpleApp(
    kw.CustomResource[SimpleAppSpec, WorkloadStatus],
    group="example.com",
    version="v1",
    scale=kw.Scale(),
    columns=[*_COUNT_COLUMNS, kw.Column("Image", "spec.image"), *_READY_COLUMNS],
    rules=[NAME],
):
    """A web application: as many pods of an image as asked for."""


class GuestbookSpec(WorkloadSpec, StateStoreSpec):
    """What a user asks for."""

    dapr_app_id: str | None = Field(
        default=None,
        max_length=_MAX_APP_ID,
        description="Name of the application in Dapr; that of the object by default.",
        json_schema_extra=kw.build_rules(_APP_ID_RULE),
    )


class Guestbook(
    kw.CustomResource[GuestbookSpec, DaprStatus],
    group="app.example.com",
    version="v1alpha1",
    scale=kw.Scale(),
    columns=_DAPR_COLUMNS,
    rules=[NAME, _build_app_id_rule("daprAppId")],
):
    """A guestbook: pods that find each other and their state through Dapr."""


class MyAppSpec(WorkloadSpec):
    """What a user asks for."""

    dapr: DaprSpec = Field(default=DaprSpec(), description="What Dapr is told.")


class MyApp(
    kw.CustomResource[MyAppSpec, DaprStatus],
    group="myapp.example.com",
    version="v1",
    scale=kw.Scale(),
    columns=_DAPR_COLUMNS,
    rules=[NAME, _build_app_id_rule("dapr.appId")],
):
    """A web application with Dapr: its name there, and its state store."""
