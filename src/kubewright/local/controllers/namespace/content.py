"""What is in a namespace that is being deleted, and deleting it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubewright.api import builtin
from kubewright.api.errors import Conflict, KubewrightError, MethodNotAllowed, NotFound
from kubewright.api.metadata import ObjectMeta
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.local.controllers.accepting import build_metadata_client
from kubewright.local.controllers.discovery import Discovery

_CONCURRENCY = 8


@dataclass(slots=True)
class Content:
    """What one pass over a namespace found left after deleting.

    `grace_seconds` is the longest time that a pod may still take to end; such pods count neither
    as remaining nor as held by finalizers, for they only need time.
    """

    remaining: Counter[Resource] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    grace_seconds: int = 0
    failures: list[str] = field(default_factory=list)
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


async def delete_content(client: Client, namespace: str, discovery: Discovery) -> Content:
    """Delete everything in a namespace and return what is left.

    Pods go first, and the rest waits for them: what a pod uses, such as a NetworkPolicy that
    confines it, must not go while it runs (KEP-5080).
    """
    content = Content(stale=discovery.stale)
    resources = [r for r in discovery.supporting("list", "delete") if r.namespaced]
    first = [resource for resource in resources if resource == builtin.POD]
    await _delete_all(client, namespace, first, content)
    if not content.grace_seconds and not content.remaining:
        await _delete_all(client, namespace, [r for r in resources if r not in first], content)
    return content


async def _delete_all(
    client: Client, namespace: str, resources: Sequence[Resource], content: Content
) -> None:
    metadata = build_metadata_client(client)
    gate = asyncio.Semaphore(_CONCURRENCY)

    async def delete(resource: Resource) -> None:
        async with gate:
            try:
                content.count(resource, await _delete_kind(client, metadata, namespace, resource))
            except KubewrightError as error:
                # One kind that cannot be deleted must not keep the others.
                content.failures.append(f"{resource}: {error}")

    async with asyncio.TaskGroup() as group:
        for resource in resources:
            group.create_task(delete(resource))
    content.failures.sort()


async def _delete_kind(
    client: Client, metadata: Client, namespace: str, resource: Resource
) -> list[ObjectMeta]:
    """Delete the objects of one kind; return the metadata of those that are still there."""
    items = await _list(metadata, namespace, resource)
    if any(not item.is_deleting for item in items):
        await _delete_collection(client, namespace, resource, items)
        items = await _list(metadata, namespace, resource)
    return items


async def _list(metadata: Client, namespace: str, resource: Resource) -> list[ObjectMeta]:
    try:
        page = await metadata.list_raw(resource, namespace=namespace)
    except (NotFound, MethodNotAllowed):
        # The kind went away since discovery: its objects went with it.
        return []
    return [item.meta for item in page.items]


async def _delete_collection(
    client: Client, namespace: str, resource: Resource, items: Sequence[ObjectMeta]
) -> None:
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    }
    try:
        await client.request("DELETE", resource.path(namespace=namespace), body=options)
    except MethodNotAllowed:
        for item in items:
            await _delete_one(client, resource, item)


async def _delete_one(client: Client, resource: Resource, item: ObjectMeta) -> None:
    try:
        await client.delete(resource, item.name, namespace=item.namespace, uid=item.uid)
    except (NotFound, Conflict):
        return
