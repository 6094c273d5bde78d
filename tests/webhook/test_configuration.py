"""Webhook configurations as objects."""

from __future__ import annotations

import base64

import pytest

from kubewright.api.errors import ConfigurationError
from kubewright.runtime.operator import Operator
from kubewright.webhook.configuration import (
    INJECT_CA_FROM,
    Endpoint,
    build_configurations,
    build_conversions,
)
from kubewright.webhook.handler import build_webhooks
from tests.webhook.widgets import Widget, add_conversion, build_operator

SERVICE = Endpoint.parse(service="system/hooks")


def test_the_rules_follow_from_the_functions() -> None:
    mutating, validating = build_configurations(build_operator(), SERVICE, b"CA")

    assert (mutating["kind"], validating["kind"]) == (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    (webhook,) = validating["webhooks"]
    path = "/validate/widgets.example.com/v1/widgets"
    service = {"namespace": "system", "name": "hooks", "port": 443, "path": path}
    assert webhook == {
        "name": "validate.v1.widgets.widgets.example.com",
        "clientConfig": {"service": service, "caBundle": base64.b64encode(b"CA").decode()},
        "rules": [
            {
                "apiGroups": ["widgets.example.com"],
                "apiVersions": ["v1"],
                "resources": ["widgets"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "scope": "Namespaced",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    assert mutating["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"


def test_without_functions_there_is_no_configuration() -> None:
    assert build_configurations(Operator("o"), SERVICE) == []
    assert build_conversions(build_operator(), SERVICE) == []


def test_cert_manager_is_asked_by_annotation_and_left_to_write() -> None:
    endpoint = Endpoint.parse(service="system/hooks", inject_ca_from="system/serving")
    operator = add_conversion(build_operator())

    built = [
        *build_configurations(operator, endpoint, b"CA"),
        *build_conversions(operator, endpoint, b"CA"),
    ]

    assert len(built) == 3
    for obj in built:
        assert obj["metadata"]["annotations"] == {INJECT_CA_FROM: "system/serving"}
        assert "caBundle" not in str(obj)


def test_the_port_zero_of_a_url_is_the_one_that_the_server_got() -> None:
    endpoint = Endpoint.parse(url="https://[::1]:0/").at_port(123)

    assert endpoint.build_client_config("/x") == {"url": "https://[::1]:123/x"}
    assert endpoint.names == ["::1"]
    assert Endpoint.parse(url="https://a:9").at_port(123).url == "https://a:9"


def test_two_operators_cannot_answer_for_one_kind() -> None:
    other = Operator("other")

    @other.validate(Widget)
    def check(new: Widget, old: Widget | None) -> None: ...

    with pytest.raises(ConfigurationError, match="2 operators answer at /validate/"):
        build_webhooks([build_operator(), other])
