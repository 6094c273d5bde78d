"""What is in a namespace that is being deleted, and deleting it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import Conflict, KubewrightError, MethodNotAllowed, NotFound
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.local.controllers.discovery import Discovery

_CONCURRENCY = 8


class Content(msgspec.Struct):
    """What one pass over a namespace found left after deleting.

    `grace_seconds` is the longest time that a pod may still take to end; such pods count neither
    as remaining nor as held by finalizers, for they only need time.
    """

    remaining: Counter[Resource] = msgspec.field(default_factory=Counter)
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    grace_seconds: int = 0
    failures: list[str] = []
    stale: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether the namespace may go: nothing is left, and nothing could hide."""
        return not (self.remaining or self.grace_seconds or self.failures or self.stale)

    def count(self, resource: Resource, items: Sequence[ObjectMeta]) -> None:
        """Add what a list found."""
        grace = [item.deletion_grace_period_seconds or 0 for item in items]
        if resource == builtin.POD and any(grace):
            self.grace_seconds = max(self.grace_seconds, *grace)
        elif items:
            self.remaining[resource] += len(items)
            self.finalizers.update(name for item in items for name in item.finalizers or ())


async def delete_content(
    client: Client, metadata: Client, namespace: str, discovery: Discovery
) -> Content:
    """Delete everything in a namespace and return what is left; `metadata` reads metadata alone.

    Pods go first, and the rest waits for them: what a pod uses, such as a NetworkPolicy that
    confines it, must not go while it runs (KEP-5080).
    """
    content = Content(stale=discovery.stale)
    resources = [r for r in discovery.supporting("list", "delete") if r.namespaced]
    first = [resource for resource in resources if resource == builtin.POD]
    deletion = _Deletion(client, metadata, namespace, content)
    await deletion.delete_all(first)
    if not content.grace_seconds and not content.remaining:
        await deletion.delete_all([r for r in resources if r not in first])
    return content


class _Deletion:
    """One pass over a namespace."""

    def __init__(self, client: Client, metadata: Client, namespace: str, content: Content) -> None:
        self._client = client
        self._metadata = metadata
        self._namespace = namespace
        self._content = content

    async def delete_all(self, resources: Sequence[Resource]) -> None:
        gate = asyncio.Semaphore(_CONCURRENCY)

        async def delete(resource: Resource) -> None:
            async with gate:
                try:
                    self._content.count(resource, await self._delete_kind(resource))
                except KubewrightError as error:
                    # One kind that cannot be deleted must not keep the others.
                    self._content.failures.append(f"{resource}: {error}")

        async with asyncio.TaskGroup() as group:
            for resource in resources:
                group.create_task(delete(resource))
        self._content.failures.sort()

    async def _delete_kind(self, resource: Resource) -> list[ObjectMeta]:
        """Delete the objects of one kind; return the metadata of those that are still there."""
        items = await self._list(resource)
        if any(not item.is_deleting for item in items):
            await self._delete_collection(resource, items)
            items = await self._list(resource)
        return items

    async def _list(self, resource: Resource) -> list[ObjectMeta]:
        try:
            page = await self._metadata.list_raw(resource, namespace=self._namespace)
        except (NotFound, MethodNotAllowed):
            # The kind went away since discovery: its objects went with it.
            return []
        return [item.meta for item in page.items]

    async def _delete_collection(self, resource: Resource, items: Sequence[ObjectMeta]) -> None:
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        path = resource.path(namespace=self._namespace)
        try:
            await self._client.request("DELETE", path, body=options)
        except MethodNotAllowed:
            for item in items:
                await self._delete_one(resource, item)

    async def _delete_one(self, resource: Resource, item: ObjectMeta) -> None:
        try:
            await self._client.delete(resource, item.name, namespace=item.namespace, uid=item.uid)
        except (NotFound, Conflict):
            return
