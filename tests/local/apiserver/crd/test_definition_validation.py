from __future__ import annotations

from typing import Any

import pytest
from tests.local.apiserver.crd.definitions import definition, established, version

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.definition import default_definition, set_stored_version
from kubewright.local.apiserver.crd.definition_validation import (
    validate_definition,
    validate_definition_update,
)


def faults(crd: dict[str, Any]) -> dict[str, str]:
    default_definition(crd)
    set_stored_version(crd, [])
    return {cause.field: cause.message for cause in validate_definition(crd)}


def test_accepts_a_minimal_definition_and_fills_in_its_names() -> None:
    crd = definition()
    crd["spec"]["names"] = {"plural": "widgets", "kind": "Widget"}
    assert faults(crd) == {}
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"group": "nodots"}, "spec.group", "should be a domain with at least one dot"),
        ({"scope": "Galaxy"}, "spec.scope", 'supported values: "Cluster", "Namespaced"'),
        ({"versions": []}, "spec.versions", "must have exactly one version marked as storage"),
        (
            {"versions": [version(), version(storage=False)]},
            "spec.versions",
            "must contain unique version names",
        ),
        (
            {"versions": [version(schema=None)]},
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value",
        ),
        (
            {"versions": [version(deprecationWarning="x")]},
            "spec.versions[0].deprecationWarning",
            "can only be set for deprecated versions",
        ),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields", "cannot set to true"),
        (
            {"conversion": {"strategy": "Magic"}},
            "spec.conversion.strategy",
            'supported values: "None", "Webhook"',
        ),
        (
            {"names": {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}},
            "spec.names.listKind",
            "kind and listKind may not be the same",
        ),
    ],
)
def test_names_the_field_that_is_wrong(change: dict[str, Any], field: str, message: str) -> None:
    crd = definition()
    crd["spec"] |= change
    assert message in faults(crd)[field]


def test_name_must_be_plural_and_group() -> None:
    crd = definition()
    crd["metadata"]["name"] = "widget.example.com"
    assert 'must be spec.names.plural+"."+spec.group' in faults(crd)["metadata.name"]


def test_schemas_that_differ_are_named_by_their_version() -> None:
    bad = {"type": "object", "properties": {"a": {}}}
    both = definition(version(bad), version(bad, name="v2", storage=False))
    assert list(faults(both)) == ["spec.validation.openAPIV3Schema.properties[a].type"]
    one = definition(version(), version(bad, name="v2", storage=False))
    assert list(faults(one)) == ["spec.versions[1].schema.openAPIV3Schema.properties[a].type"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"group": "other.org"}, "spec.group"),
        (
            {"names": {"plural": "gadgets", "kind": "Widget", "singular": "g", "listKind": "WL"}},
            "spec.names.plural",
        ),
        (
            {"names": {"plural": "widgets", "kind": "Gadget", "singular": "g", "listKind": "WL"}},
            "spec.names.kind",
        ),
    ],
)
def test_identity_of_an_established_definition_is_immutable(
    change: dict[str, Any], field: str
) -> None:
    old, new = established(), established()
    for crd in (old, new):
        crd["metadata"]["resourceVersion"] = "1"
    new["spec"] |= change
    causes = validate_definition_update(new, old)
    assert [(cause.field, cause.message.rpartition(": ")[2]) for cause in causes] == [
        (field, "field is immutable")
    ]


def test_stored_versions_must_stay_until_migrated() -> None:
    old = established()
    old["metadata"]["resourceVersion"] = "1"
    new = established(version(name="v2"))
    new["metadata"]["resourceVersion"] = "1"
    new["status"]["storedVersions"] = ["v1", "v2"]
    causes: list[Cause] = validate_definition_update(new, old)
    assert [cause.field for cause in causes] == ["status.storedVersions[0]"]


def test_a_conversion_webhook_may_stand_with_one_version_or_several() -> None:
    webhook = {"clientConfig": {"url": "https://a.example"}, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    assert faults(definition(conversion=conversion)) == {}
    two = definition(version(), version(name="v2", storage=False), conversion=conversion)
    assert faults(two) == {}


def test_community_groups_need_an_approval() -> None:
    crd = definition(group="x.k8s.io")
    crd["metadata"]["name"] = "widgets.x.k8s.io"
    field = "metadata.annotations[api-approved.kubernetes.io]"
    assert "must have approval annotation" in faults(crd)[field]
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert faults(crd) == {}
