from __future__ import annotations

import asyncio

import msgspec
import pytest

from kubewright.api import builtin
from kubewright.api.errors import Forbidden, NotFound
from kubewright.api.resource import GroupVersionKind, Resource
from kubewright.client import RESTMapper

WIDGET = GroupVersionKind("example.com", "v1", "Widget")


class Discovery:
    """A server's discovery of one group version."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.resources: list[dict[str, object]] = []
        self.error: Exception | None = None

    async def fetch(self, path: str) -> bytes:
        self.paths.append(path)
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return msgspec.json.encode({"kind": "APIResourceList", "resources": self.resources})

    def install(self) -> None:
        self.resources = [
            {"name": "widgets", "kind": "Widget", "namespaced": True},
            {"name": "widgets/status", "kind": "Widget", "namespaced": True},
            {"name": "panels", "kind": "Panel", "namespaced": False},
        ]


async def test_knows_built_in_kinds_without_asking() -> None:
    discovery = Discovery()
    mapper = RESTMapper(discovery.fetch)
    assert await mapper.resource_for(builtin.POD.gvk) == builtin.POD
    assert discovery.paths == []


async def test_discovers_a_group_once_for_all_who_ask() -> None:
    discovery = Discovery()
    discovery.install()
    mapper = RESTMapper(discovery.fetch)
    found = await asyncio.gather(*[mapper.resource_for(WIDGET) for _ in range(3)])
    assert found == [Resource("example.com", "v1", "Widget", "widgets")] * 3
    panel = await mapper.resource_for(GroupVersionKind("example.com", "v1", "Panel"))
    assert not panel.namespaced
    assert discovery.paths == ["/apis/example.com/v1"]


async def test_asks_again_for_a_kind_that_was_missing() -> None:
    discovery = Discovery()
    mapper = RESTMapper(discovery.fetch)
    with pytest.raises(NotFound):
        await mapper.resource_for(WIDGET)
    discovery.install()
    assert (await mapper.resource_for(WIDGET)).plural == "widgets"


async def test_a_missing_kind_is_told_with_what_to_do() -> None:
    discovery = Discovery()
    discovery.error = NotFound("404 page not found")
    with pytest.raises(
        NotFound, match=r"Is|is the CustomResourceDefinition for Widget.example.com"
    ):
        await RESTMapper(discovery.fetch).resource_for(WIDGET)


async def test_other_refusals_are_not_taken_for_a_missing_kind() -> None:
    discovery = Discovery()
    discovery.error = Forbidden("no discovery for you")
    with pytest.raises(Forbidden):
        await RESTMapper(discovery.fetch).resource_for(WIDGET)


async def test_asks_the_core_group_at_its_own_path() -> None:
    discovery = Discovery()
    with pytest.raises(NotFound):
        await RESTMapper(discovery.fetch).resource_for(GroupVersionKind("", "v1", "Pot"))
    assert discovery.paths == ["/api/v1"]


async def test_an_object_must_say_what_it_is() -> None:
    with pytest.raises(ValueError, match="set apiVersion and kind"):
        await RESTMapper(Discovery().fetch).resource_of({"metadata": {"name": "a"}})
