"""Versions of one kind: one CRD, and a way from each version to each other one."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.errors import ConfigurationError, SchemaError
from kubewright.api.resource import Resource
from kubewright.runtime.conversion import Conversions
from kubewright.runtime.operator import Operator


class Spec(BaseModel):
    size: int = 1


class V1(CustomResource[Spec, Status], group="g.example.com", version="v1", kind="Widget"):
    """The stored version."""


class V1Beta1(
    CustomResource[Spec, Status],
    group="g.example.com",
    version="v1beta1",
    kind="Widget",
    storage=False,
    deprecated="use v1",
):
    """An older version."""


class V2(CustomResource[Spec, Status], group="g.example.com", version="v2", kind="Widget"):
    """A version that says it is stored, too."""


def version(name: str) -> Resource:
    return Resource("g.example.com", name, "Widget", "widgets")


def build_operator() -> Operator:
    operator = Operator("widgets")

    @operator.convert(V1Beta1, V1)
    def up(old: V1Beta1) -> V1:
        return V1(metadata=old.metadata, spec=old.spec)

    @operator.convert(V1, V1Beta1)
    def down(new: V1) -> V1Beta1:
        return V1Beta1(metadata=new.metadata, spec=new.spec)

    return operator


def test_spokes_reach_each_other_through_the_hub() -> None:
    conversions = Conversions()
    hub, spokes = version("v2"), [version("v1"), version("v3")]
    for spoke in spokes:
        conversions.add(spoke, hub, str)
        conversions.add(hub, spoke, str)

    path = conversions.find_path(*spokes)

    assert [step.version for step, _ in path] == ["v2", "v3"]
    assert conversions.find_path(hub, hub) == []


def test_a_missing_way_back_is_told() -> None:
    conversions = Conversions()
    conversions.add(version("v1"), version("v2"), lambda obj: obj)

    with pytest.raises(ConfigurationError, match="nothing converts Widget from v2 to v1"):
        conversions.check([version("v1"), version("v2")])


def test_only_versions_of_one_kind_convert() -> None:
    other = Resource("g.example.com", "v2", "Gadget", "gadgets")

    with pytest.raises(ConfigurationError, match="not two versions of one kind"):
        Conversions().add(version("v1"), other, lambda obj: obj)


def test_the_versions_of_a_kind_are_one_definition_that_converts() -> None:
    (crd,) = build_operator().crds({"url": "https://127.0.0.1:9443/convert"})

    stages = [(v["name"], v["served"], v["storage"]) for v in crd["spec"]["versions"]]
    assert stages == [("v1beta1", True, False), ("v1", True, True)]
    assert crd["spec"]["versions"][0]["deprecationWarning"] == "use v1"
    assert crd["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9443/convert"},
        },
    }


def test_exactly_one_version_is_stored() -> None:
    operator = build_operator()

    @operator.convert(V2, V1)
    def up(old: V2) -> V1:
        return V1(metadata=old.metadata, spec=old.spec)

    @operator.convert(V1, V2)
    def down(new: V1) -> V2:
        return V2(metadata=new.metadata, spec=new.spec)

    with pytest.raises(SchemaError, match="exactly one is stored, not v1 and v2"):
        operator.crds()


def test_one_version_is_reconciled_whatever_others_check() -> None:
    operator = build_operator()

    @operator.validate(V1Beta1)
    def check(new: V1Beta1, old: V1Beta1 | None) -> None: ...

    @operator.desired(V1, owns=[])
    def children(widget: V1) -> list[dict[str, object]]:
        return []

    assert [controller.kind for controller in operator.controllers()] == [V1.resource]

    @operator.status(V1Beta1)
    def status(widget: V1Beta1, children: object) -> Status:
        return Status()

    with pytest.raises(ConfigurationError, match="use one version"):
        operator.controllers()
