"""What an operator answers to a ConversionReview, without any server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.errors import BadRequest
from kubewright.api.resource import Object
from kubewright.runtime.operator import Operator
from kubewright.webhook.conversion import ConversionWebhook
from tests.webhook.widgets import (
    GROUP,
    OldWidget,
    Widget,
    add_conversion,
    build_operator,
    build_widget,
)


def convert(*objects: Any, to: str = f"{GROUP}/v1", operator: Operator | None = None) -> Object:
    webhook = ConversionWebhook([operator or add_conversion(build_operator())])
    request = {"uid": "u-2", "desiredAPIVersion": to, "objects": list(objects)}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }
    review = webhook.review(webhook.decode(json.dumps(body).encode()))
    assert (review["apiVersion"], review["kind"]) == (body["apiVersion"], body["kind"])
    response: Object = review["response"]
    assert response["uid"] == "u-2"
    return response


def test_all_objects_come_in_the_version_that_is_wanted() -> None:
    old = build_widget("a", version="v1beta1", size="3", color="red")
    new = build_widget("b", size=4)

    response = convert(old, new)

    assert response["result"] == {"status": "Success"}
    first, second = response["convertedObjects"]
    assert first["apiVersion"] == f"{GROUP}/v1"
    assert (first["spec"]["size"], first["spec"]["colour"]) == (3, "red")
    assert second == new


def test_metadata_stays_but_for_labels_and_annotations() -> None:
    operator = Operator("o")

    @operator.convert(OldWidget, Widget)
    def up(old: OldWidget) -> Widget:
        old.metadata.name, old.metadata.labels = "other", {"now": "v1"}
        return Widget(metadata=old.metadata, spec=Widget.decode(b"{}").spec)

    @operator.convert(Widget, OldWidget)
    def down(new: Widget) -> OldWidget:
        return OldWidget(metadata=new.metadata, spec=OldWidget.decode(b"{}").spec)

    old = build_widget(version="v1beta1")
    old["metadata"] |= {"uid": "u", "managedFields": [{"manager": "m"}], "labels": {"was": "old"}}

    (converted,) = convert(old, operator=operator)["convertedObjects"]

    assert converted["metadata"] == {**old["metadata"], "labels": {"now": "v1"}}


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (build_widget(version="v1beta1", size=[]), "Widget default/w: Widget: size: "),
        (build_widget(version="v7"), f"no operator here has a class for {GROUP}/v7"),
        ({"apiVersion": "v1", "kind": "Pod"}, "no operator here has a class for v1, Kind=Pod"),
    ],
)
def test_what_cannot_be_converted_fails_the_whole_with_the_object(
    obj: Object, sentence: str
) -> None:
    response = convert(build_widget(), obj)

    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failure"
    assert sentence in response["result"]["message"]


def test_a_function_that_returns_another_type_is_a_fault() -> None:
    operator = add_conversion(Operator("o"))
    operator.conversions = type(operator.conversions)()
    operator.conversions.add(OldWidget.resource, Widget.resource, lambda old: old)
    operator.conversions.add(Widget.resource, OldWidget.resource, lambda new: new)

    with pytest.raises(TypeError, match="returned a OldWidget: return a Widget of v1"):
        convert(build_widget(version="v1beta1"), operator=operator)


def test_what_is_no_review_is_a_bad_request() -> None:
    webhook = ConversionWebhook([add_conversion(build_operator())])

    with pytest.raises(BadRequest, match="this webhook answers a ConversionReview of "):
        webhook.decode(b'{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "X"}')
