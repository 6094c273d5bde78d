"""An API server has its objects converted by our webhook: one kind in three versions."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from kubewright.api import builtin
from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.errors import APIError
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType
from kubewright.runtime.operator import Operator
from tests.webhook.conftest import LOOPBACK, Serving, eventually

GROUP = "gadgets.example.com"
CRD = f"gadgets.{GROUP}"


class Alpha(BaseModel):
    size: str = "1"


class Beta(BaseModel):
    width: int = 1


class Stable(BaseModel):
    height: int = 1


class GadgetV1Alpha1(
    CustomResource[Alpha, Status], group=GROUP, version="v1alpha1", kind="Gadget", storage=False
):
    """A gadget whose size is text."""


class GadgetV1Beta1(
    CustomResource[Beta, Status], group=GROUP, version="v1beta1", kind="Gadget", storage=False
):
    """A gadget that is wide."""


class Gadget(CustomResource[Stable, Status], group=GROUP, version="v1"):
    """A gadget as it is stored: the hub."""


def build_operator() -> Operator:
    operator = Operator("gadget-operator")

    @operator.convert(GadgetV1Alpha1, Gadget)
    def from_alpha(old: GadgetV1Alpha1) -> Gadget:
        return Gadget(
            metadata=old.metadata, spec=Stable(height=int(old.spec.size)), status=old.status
        )

    @operator.convert(Gadget, GadgetV1Alpha1)
    def to_alpha(new: Gadget) -> GadgetV1Alpha1:
        return GadgetV1Alpha1(
            metadata=new.metadata, spec=Alpha(size=str(new.spec.height)), status=new.status
        )

    @operator.convert(GadgetV1Beta1, Gadget)
    def from_beta(old: GadgetV1Beta1) -> Gadget:
        return Gadget(metadata=old.metadata, spec=Stable(height=old.spec.width), status=old.status)

    @operator.convert(Gadget, GadgetV1Beta1)
    def to_beta(new: Gadget) -> GadgetV1Beta1:
        return GadgetV1Beta1(
            metadata=new.metadata, spec=Beta(width=new.spec.height), status=new.status
        )

    @operator.validate(Gadget)
    def check(new: Gadget, old: Gadget | None) -> None:
        if new.spec.height > 100:
            raise ValueError("spec.height: the ceiling is at 100")

    return operator


def build_gadget(namespace: str, version: str, name: str = "g", **spec: object) -> Object:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.fixture
async def gadgets_are_served(client: Client) -> None:
    config = LOOPBACK.build_client_config("/convert")
    await build_operator().ensure_crds(client, conversion=config)


@pytest.mark.usefixtures("gadgets_are_served")
async def test_a_crd_that_is_installed_again_leads_to_the_same_webhook(client: Client) -> None:
    """As by `kubewright run --install-crds` without webhooks, after a run with them."""
    before = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, CRD)

    await build_operator().ensure_crds(client)

    after = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, CRD)
    assert "url" in before["spec"]["conversion"]["webhook"]["clientConfig"]
    assert after["spec"] == before["spec"]


async def until_converted(client: Client, namespace: str) -> None:
    """Wait until the API server knows where the webhook is."""

    async def is_converted() -> bool:
        try:
            await client.create(build_gadget(namespace, "v1beta1", width=7), dry_run=True)
        except APIError:
            return False
        return True

    await eventually(is_converted)


@pytest.mark.usefixtures("gadgets_are_served")
async def test_an_object_is_written_and_read_in_every_version(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_converted(client, namespace)
        created = await client.create(build_gadget(namespace, "v1alpha1", size="7"))
        assert created["spec"] == {"size": "7"}

        stable = await client.get(Gadget, "g", namespace=namespace)
        beta = await client.get(GadgetV1Beta1, "g", namespace=namespace)
        assert (stable.spec.height, beta.spec.width) == (7, 7)
        assert stable.metadata.uid == created["metadata"]["uid"]

        await client.patch(
            GadgetV1Beta1.resource,
            "g",
            {"spec": {"width": 8}},
            type=PatchType.MERGE,
            namespace=namespace,
        )
        (listed,) = await client.list(GadgetV1Alpha1, namespace=namespace)
        assert listed.spec.size == "8"
        await client.apply(build_gadget(namespace, "v1beta1", width=9))
        assert (await client.get(Gadget, "g", namespace=namespace)).spec.height == 9


@pytest.mark.usefixtures("gadgets_are_served")
async def test_a_rule_for_one_version_holds_for_all(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_converted(client, namespace)

        async def is_refused() -> bool:
            try:
                await client.create(build_gadget(namespace, "v1alpha1", size="101"), dry_run=True)
            except APIError as error:
                return "spec.height: the ceiling is at 100" in str(error)
            return False

        await eventually(is_refused)


@pytest.mark.usefixtures("gadgets_are_served")
async def test_what_cannot_be_converted_is_told_with_its_place(
    client: Client, namespace: str, serving: Serving
) -> None:
    async with serving(build_operator()):
        await until_converted(client, namespace)

        with pytest.raises(APIError, match=r"ValueError: invalid literal for int\(\).*test_conv"):
            await client.create(build_gadget(namespace, "v1alpha1", size="many"))


@pytest.mark.usefixtures("gadgets_are_served")
async def test_a_definition_that_leads_to_a_service_is_led_here(
    client: Client, namespace: str, serving: Serving
) -> None:
    """As `kubewright generate crd` writes it, and somebody else installs it."""
    (crd,) = build_operator().crds()
    pointer = "/spec/conversion/webhook/clientConfig"
    config = crd["spec"]["conversion"]["webhook"]["clientConfig"]
    patch = [{"op": "replace", "path": pointer, "value": config}]
    await client.patch(builtin.CUSTOM_RESOURCE_DEFINITION, CRD, patch, type=PatchType.JSON)

    async with serving(build_operator()) as server:
        await until_converted(client, namespace)
        live = await client.get(builtin.CUSTOM_RESOURCE_DEFINITION, CRD)
        config = live["spec"]["conversion"]["webhook"]["clientConfig"]
        assert config["url"] == f"https://127.0.0.1:{server.port}/convert"
        assert config["caBundle"]
        assert "service" not in config
