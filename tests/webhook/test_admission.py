"""What the functions of a kind answer to a review, without any server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubewright.api.errors import BadRequest
from kubewright.api.resource import Object
from kubewright.runtime.operator import Operator
from kubewright.webhook.admission import AdmissionWebhook, limit_warnings
from kubewright.webhook.configuration import defaulting_webhooks, validating_webhooks
from tests.webhook.widgets import Widget, build_operator, build_review, build_widget, patch_of


def respond(webhook: AdmissionWebhook, operation: str = "CREATE", **request: Any) -> Object:
    review = webhook.review(webhook.decode(build_review(operation, **request)))
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = review["response"]
    assert response["uid"] == "u-1"
    return response


@pytest.fixture
def validating() -> AdmissionWebhook:
    (webhook,) = validating_webhooks(build_operator())
    return webhook


@pytest.fixture
def defaulting() -> AdmissionWebhook:
    (webhook,) = defaulting_webhooks(build_operator())
    return webhook


def test_an_object_that_passes_is_allowed_in_silence(validating: AdmissionWebhook) -> None:
    assert respond(validating, object=build_widget()) == {"uid": "u-1", "allowed": True}


def test_a_refusal_is_invalid_and_says_all_that_is_wrong(validating: AdmissionWebhook) -> None:
    old, new = build_widget(size=2), build_widget(size=-1)

    response = respond(validating, "UPDATE", object=new, oldObject=old)

    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "message": "spec.size: must not be negative; spec.size: must not shrink from 2",
        "reason": "Invalid",
        "code": 422,
    }


def test_a_typed_refusal_keeps_its_code_and_reason(validating: AdmissionWebhook) -> None:
    status = respond(validating, object=build_widget(colour="conflict"))["status"]

    assert (status["code"], status["reason"]) == (409, "Conflict")


def test_warnings_come_with_an_allowed_write(validating: AdmissionWebhook) -> None:
    response = respond(validating, object=build_widget(colour="beige"))

    assert response["allowed"] is True
    assert response["warnings"] == ["beige goes out of fashion"]


def test_an_object_that_is_none_of_its_kind_is_refused_with_the_field(
    validating: AdmissionWebhook,
) -> None:
    status = respond(validating, object=build_widget(size="many"))["status"]

    assert status["code"] == 422
    assert status["message"].startswith("Widget: size: Input should be a valid integer")


def test_an_object_older_than_a_rule_may_still_change_otherwise(
    validating: AdmissionWebhook,
) -> None:
    old = build_widget(size=-1)
    metadata = {**old["metadata"], "finalizers": ["a/b"], "resourceVersion": "2"}

    touched = respond(validating, "UPDATE", object={**old, "metadata": metadata}, oldObject=old)
    ending = {**build_widget(size=-2), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    deleted = respond(validating, "UPDATE", object=ending, oldObject=old)
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}

    assert touched["allowed"]
    assert deleted["allowed"]
    assert not respond(validating, "UPDATE", object=relabelled, oldObject=old)["allowed"]


def test_a_deletion_is_refused_as_forbidden(validating: AdmissionWebhook) -> None:
    gold, unreadable = build_widget(colour="gold"), build_widget(size="many")

    status = respond(validating, "DELETE", oldObject=gold)["status"]

    assert (status["code"], status["message"]) == (403, "gold is kept")
    assert respond(validating, "DELETE", oldObject=build_widget())["allowed"]
    assert respond(validating, "DELETE", oldObject=unreadable)["allowed"]


def test_an_old_state_that_nobody_can_read_counts_as_unknown(validating: AdmissionWebhook) -> None:
    old, new = build_widget(size="many"), build_widget(size=1)

    assert respond(validating, "UPDATE", object=new, oldObject=old)["allowed"]


def test_defaults_are_a_patch_of_what_changed(defaulting: AdmissionWebhook) -> None:
    response = respond(defaulting, object={**build_widget(size=2), "unknown": {"kept": True}})

    assert response["patchType"] == "JSONPatch"
    assert patch_of(response) == [{"op": "add", "path": "/spec/colour", "value": "grey"}]


def test_where_nothing_is_missing_there_is_no_patch(defaulting: AdmissionWebhook) -> None:
    response = respond(defaulting, object=build_widget(colour="red"))

    assert response == {"uid": "u-1", "allowed": True}


def test_what_cannot_be_read_is_left_to_the_schema(defaulting: AdmissionWebhook) -> None:
    assert respond(defaulting, object=build_widget(size="many")) == {"uid": "u-1", "allowed": True}


def test_a_default_function_that_returns_something_is_a_fault() -> None:
    operator = Operator("o")

    @operator.default(Widget)
    def fill(widget: Widget) -> Any:
        return widget

    (webhook,) = defaulting_webhooks(operator)

    with pytest.raises(TypeError, match="fill returned a Widget"):
        respond(webhook, object=build_widget())


def test_a_fault_of_a_function_comes_out(validating: AdmissionWebhook) -> None:
    with pytest.raises(KeyError):
        respond(validating, object=build_widget(colour="fault"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is no AdmissionReview"),
        (b"[]", "the body is no AdmissionReview"),
        (b"{}", "not an object without a kind of no version"),
        (b"[" * 100_000, "the body is no AdmissionReview"),
        (build_review().replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "not AdmissionReview of"),
        (build_review().replace(b"u-1", b""), "request.uid is empty"),
        (build_review("PATCH"), r"Invalid enum value 'PATCH' - at `\$.request.operation`"),
        (build_review(kind={"kind": "Pod"}), "is asked about /, Kind=Pod|is asked about"),
    ],
)
def test_what_is_no_review_is_a_bad_request(
    validating: AdmissionWebhook, body: bytes, sentence: str
) -> None:
    with pytest.raises(BadRequest, match=sentence):
        validating.decode(body)


def test_warnings_are_cut_to_what_an_api_server_passes_on() -> None:
    limited = limit_warnings(["a\nb", "x" * 300, *["y" * 200] * 30])

    assert limited[0] == "a b"
    assert limited[1] == "x" * 255 + "…"
    assert limited[-1].endswith(" more")
    assert sum(len(text.encode()) for text in limited) <= 4096


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "size", "labels", "deletionTimestamp", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@example("UPDATE", {"metadata": [1]}, {"metadata": "x"})
@given(
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", "x"]),
    new=json_values,
    old=json_values,
)
def test_whatever_comes_is_answered_or_refused_as_no_review(
    operation: str, new: Any, old: Any
) -> None:
    operator = build_operator()
    for webhook in (*defaulting_webhooks(operator), *validating_webhooks(operator)):
        try:
            request = webhook.decode(build_review(operation, object=new, oldObject=old))
            answer = webhook.review(request)
        except BadRequest:
            continue
        assert isinstance(answer["response"]["allowed"], bool)
