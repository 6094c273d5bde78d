"""Rules in CEL, as models declare them and as the API server checks them."""

from __future__ import annotations

import pytest
from pydantic import Field

import kubewright as kw
from kubewright.api.errors import Invalid
from kubewright.testing import Cluster

SHORT = kw.Rule("size(self.metadata.name) <= 10", "metadata.name: 10 characters at most")


class LampSpec(kw.Model):
    light_colour: str = Field(
        default="white",
        max_length=20,
        json_schema_extra=kw.build_rules(
            kw.Rule("self != 'black'", "it must shine"),
            kw.Rule("self != 'grey'", message_expression="self + ' does not shine'"),
        ),
    )


class Lamp(
    kw.CustomResource[LampSpec, kw.Status], group="lamps.example.com", version="v1", rules=[SHORT]
):
    """A lamp."""


operator = kw.Operator("lamps")
operator.desired(Lamp, owns=[])(lambda lamp: [])


def build_lamp(name: str, colour: str) -> kw.Object:
    return {
        "apiVersion": "lamps.example.com/v1",
        "kind": "Lamp",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"lightColour": colour},
    }


def test_rules_stand_in_the_schema_of_what_they_are_about() -> None:
    schema = Lamp.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    [rule] = schema["x-kubernetes-validations"]
    assert rule == {
        "rule": "size(self.metadata.name) <= 10",
        "message": "metadata.name: 10 characters at most",
    }
    field = schema["properties"]["spec"]["properties"]["lightColour"]
    assert [each["rule"] for each in field["x-kubernetes-validations"]] == [
        "self != 'black'",
        "self != 'grey'",
    ]


def test_a_class_without_rules_has_none() -> None:
    class Bulb(kw.CustomResource[LampSpec, kw.Status], group="lamps.example.com", version="v1"):
        """A bulb."""

    schema = Bulb.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "x-kubernetes-validations" not in schema


@pytest.mark.parametrize(
    ("name", "colour", "sentence"),
    [
        ("lamp", "black", "spec.lightColour: Invalid value: .*it must shine"),
        ("lamp", "grey", "grey does not shine"),
        ("a-long-long-lamp", "red", "metadata.name: 10 characters at most"),
    ],
)
async def test_the_server_refuses_with_the_sentence(
    cluster: Cluster, name: str, colour: str, sentence: str
) -> None:
    await cluster.install(operator)

    await cluster.client.create(build_lamp("fine", "red"))
    with pytest.raises(Invalid, match=sentence):
        await cluster.client.create(build_lamp(name, colour))
