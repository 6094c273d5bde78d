"""Decoding as Go does: types, unknown fields, what is left out, what is made canonical."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import BadRequest
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.builtin.codec import decode
from kubewright.local.apiserver.builtin.names import definition_name
from kubewright.local.apiserver.kind import Decoded

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
POD = GroupVersionKind("", "v1", "Pod")


def decoded(obj: Object, gvk: GroupVersionKind) -> Decoded:
    return decode(obj, definition_name(gvk), gvk)


def refusal(obj: Object, gvk: GroupVersionKind) -> str:
    with pytest.raises(BadRequest) as caught:
        decoded(obj, gvk)
    return str(caught.value)


def test_reports_unknown_fields_in_the_order_of_the_document() -> None:
    spec = {"foo": 1, "template": {"spec": {"containers": [{"name": "c", "bar": 2}]}}}
    result = decoded({"metadata": {"odd": 1}, "spec": spec, "top": []}, DEPLOYMENT)
    assert result.unknown == (
        "metadata.odd",
        "spec.foo",
        "spec.template.spec.containers[0].bar",
        "top",
    )


def test_keeps_zero_behind_a_pointer_and_drops_it_elsewhere() -> None:
    spec = {"replicas": 0, "minReadySeconds": 0, "paused": False}
    result = decoded({"spec": spec}, DEPLOYMENT).obj
    assert result["spec"]["replicas"] == 0
    assert "minReadySeconds" not in result["spec"]
    assert "paused" not in result["spec"]


def test_writes_structs_that_are_never_absent() -> None:
    result = decoded({}, DEPLOYMENT).obj
    assert result["status"] == {}
    assert result["spec"] == {
        "selector": None,
        "template": {"metadata": {}, "spec": {"containers": None}},
        "strategy": {},
    }


def test_drops_null_and_empty_lists_and_maps() -> None:
    obj = {"metadata": {"name": "a", "labels": {}, "finalizers": []}, "data": None}
    assert decoded(obj, CONFIG_MAP).obj == {"metadata": {"name": "a"}}


def test_keeps_empty_structs_behind_pointers() -> None:
    volume = {"name": "v", "emptyDir": {}}
    result = decoded({"spec": {"volumes": [volume], "securityContext": {}}}, POD).obj
    assert result["spec"]["volumes"] == [volume]
    assert result["spec"]["securityContext"] == {}


def test_null_in_a_map_is_the_zero_value() -> None:
    assert decoded({"data": {"k": None}}, CONFIG_MAP).obj["data"] == {"k": ""}


@pytest.mark.parametrize(
    ("amount", "canonical"),
    [("1000m", "1"), (1, "1"), (0.5, "500m"), ("1024Mi", "1Gi"), ("1e3", "1e3")],
)
def test_makes_quantities_canonical(amount: Any, canonical: str) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": amount}}}
    result = decoded({"spec": {"containers": [container]}}, POD).obj
    assert result["spec"]["containers"][0]["resources"]["limits"]["cpu"] == canonical


def test_makes_times_canonical() -> None:
    meta = {"creationTimestamp": "2026-01-01T02:00:00+02:00"}
    result = decoded({"metadata": meta}, CONFIG_MAP).obj
    assert result["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_micro_times_need_their_fraction() -> None:
    lease = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
    message = refusal({"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, lease)
    assert message.endswith('cannot parse "Z" as ".000000"')


@pytest.mark.parametrize(
    ("obj", "gvk", "fault"),
    [
        (
            {"data": {"k": 1}},
            CONFIG_MAP,
            "cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            {"data": []},
            CONFIG_MAP,
            "cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            {"metadata": []},
            CONFIG_MAP,
            "cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            {"spec": {"replicas": "3"}},
            DEPLOYMENT,
            (
                "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas"
                " of type int32"
            ),
        ),
        (
            {"spec": {"containers": [{"command": "sh"}]}},
            POD,
            (
                "cannot unmarshal string into Go struct field Container.spec.containers.command"
                " of type []string"
            ),
        ),
    ],
)
def test_words_wrong_types_as_go_does(obj: Object, gvk: GroupVersionKind, fault: str) -> None:
    head = f'{gvk.kind} in version "v1" cannot be handled as a {gvk.kind}: json: '
    assert refusal(obj, gvk) == head + fault


def test_refuses_bad_base64_with_its_place() -> None:
    secret = GroupVersionKind("", "v1", "Secret")
    assert refusal({"data": {"k": "not base64"}}, secret).endswith(
        "illegal base64 data at input byte 3"
    )


def test_refuses_numbers_that_do_not_fit() -> None:
    message = refusal({"spec": {"replicas": 2**31}}, DEPLOYMENT)
    assert "cannot unmarshal number 2147483648 into" in message


def test_does_not_change_the_body() -> None:
    body = {"spec": {"replicas": None}}
    decoded(body, DEPLOYMENT)
    assert body == {"spec": {"replicas": None}}


def test_decoding_twice_changes_nothing() -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 1}], "resources": {}}]
    once = decoded({"spec": {"containers": containers}}, POD).obj
    assert decoded(once, POD).obj == once
