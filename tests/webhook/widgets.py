"""The custom resource of these tests: a widget in two versions, and an operator of it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.errors import Conflict
from kubewright.api.resource import Object
from kubewright.runtime.operator import Operator

GROUP = "widgets.example.com"


class Part(BaseModel):
    name: str
    weight: int = 1


class WidgetSpec(BaseModel):
    size: int = 1
    colour: str = ""
    parts: list[Part] = Field(default_factory=list)


class Widget(CustomResource[WidgetSpec, Status], group=GROUP, version="v1"):
    """A widget as it is stored."""


class OldWidgetSpec(BaseModel):
    size: str = "1"
    color: str = ""


class OldWidget(
    CustomResource[OldWidgetSpec, Status],
    group=GROUP,
    version="v1beta1",
    kind="Widget",
    storage=False,
):
    """A widget as it was: its size is text."""


def build_operator() -> Operator:
    """Build an operator that checks, fills in and guards widgets by what their colour says."""
    operator = Operator("widget-operator")

    @operator.default(Widget)
    def fill(widget: Widget) -> None:
        if widget.spec.colour == "default-fault":
            raise LookupError("no colour today")
        if not widget.spec.colour:
            widget.spec.colour = "grey"

    @operator.validate(Widget)
    def check(new: Widget, old: Widget | None) -> Iterator[str]:
        if new.spec.colour == "beige":
            yield "beige goes out of fashion"
        if new.spec.colour == "fault":
            raise KeyError("palette")
        if new.spec.colour == "hang":
            time.sleep(3)
        if new.spec.colour == "conflict":
            raise Conflict("somebody else painted it")
        if new.spec.size < 0:
            raise ValueError("spec.size: must not be negative")

    @operator.validate(Widget)
    def never_shrink(new: Widget, old: Widget | None) -> None:
        if old is not None and new.spec.size < old.spec.size:
            raise ValueError(f"spec.size: must not shrink from {old.spec.size}")

    @operator.validate_delete(Widget)
    def keep_gold(widget: Widget) -> None:
        if widget.spec.colour == "gold":
            raise ValueError("gold is kept")

    return operator


def add_conversion(operator: Operator) -> Operator:
    """Register the older version."""

    @operator.convert(OldWidget, Widget)
    def up(old: OldWidget) -> Widget:
        spec = WidgetSpec(size=int(old.spec.size), colour=old.spec.color)
        return Widget(metadata=old.metadata, spec=spec, status=old.status)

    @operator.convert(Widget, OldWidget)
    def down(new: Widget) -> OldWidget:
        spec = OldWidgetSpec(size=str(new.spec.size), color=new.spec.colour)
        return OldWidget(metadata=new.metadata, spec=spec, status=new.status)

    return operator


def build_widget(
    name: str = "w", namespace: str = "default", version: str = "v1", **spec: Any
) -> Object:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def build_review(operation: str = "CREATE", **request: Any) -> bytes:
    kind = {"group": GROUP, "version": "v1", "kind": "Widget"}
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u-1", "kind": kind, "operation": operation, **request},
        }
    ).encode()


def patch_of(response: Object) -> list[Object]:
    operations: list[Object] = json.loads(base64.b64decode(response["patch"]))
    return operations
