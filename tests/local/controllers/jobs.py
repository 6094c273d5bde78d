"""The Jobs of a test's namespace: make them, and wait for what becomes of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.local.controllers.batch_objects import build_job

from kubewright.api import builtin
from kubewright.api.conditions import find_condition
from kubewright.api.errors import NotFound
from kubewright.api.resource import Object
from kubewright.client.client import Client
from kubewright.client.requests import PatchType


class Jobs:
    """The Jobs of the test's namespace."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]],
    ) -> None:
        self.client = client
        self.namespace = namespace
        self._eventually = eventually

    async def create(self, name: str = "work", **spec: Any) -> Object:
        job = build_job(name, **spec)
        job["metadata"] = {"name": name, "namespace": self.namespace}
        return await self.client.create(job)

    async def get(self, name: str = "work") -> Object:
        return await self.client.get(builtin.JOB, name, namespace=self.namespace)

    async def patch(self, spec: Object, name: str = "work") -> None:
        patch = {"spec": spec}
        await self.client.patch(
            builtin.JOB, name, patch, type=PatchType.MERGE, namespace=self.namespace
        )

    async def wait_condition(self, type: str, name: str = "work", status: str = "True") -> Object:
        async def holds() -> bool:
            conditions = (await self.get(name))["status"].get("conditions") or ()
            condition = find_condition(conditions, type)
            return condition is not None and condition["status"] == status

        await self._eventually(holds)
        return await self.get(name)

    async def wait_count(self, field: str, count: int, name: str = "work") -> None:
        async def holds() -> bool:
            return bool((await self.get(name))["status"].get(field, 0) == count)

        await self._eventually(holds)

    async def pods(self) -> list[Object]:
        return list(await self.client.list(builtin.POD, namespace=self.namespace))

    async def events(self) -> set[tuple[str, str, str]]:
        events = await self.client.list(builtin.CORE_EVENT, namespace=self.namespace)
        return {(event["type"], event["reason"], event["message"]) for event in events}

    async def wait_event(self, type: str, reason: str, message: str) -> None:
        async def is_told() -> bool:
            return (type, reason, message) in await self.events()

        await self._eventually(is_told)

    async def wait_gone(self, name: str = "work") -> None:
        async def is_gone() -> bool:
            try:
                await self.get(name)
            except NotFound:
                return not await self.pods()
            return False

        await self._eventually(is_gone)
