"""What an operator would do with the children of its objects now: asked, not done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from kubewright.api.errors import APIError, ConfigurationError, KubewrightError, NotFound
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.cache.store import ALL_NAMESPACES, Store
from kubewright.client.client import Client
from kubewright.runtime.desired import (
    Action,
    Step,
    build_encoding_refusal,
    guard,
    is_immutable_refusal,
)
from kubewright.runtime.kind_reconciler import KindReconciler
from kubewright.runtime.managed_kind import ManagedKind
from kubewright.runtime.object_diff import diff_objects
from kubewright.runtime.operator import Operator


class PlannedChange(msgspec.Struct, frozen=True):
    """One step of a plan, and what it would change: a unified diff, empty where it only waits."""

    step: Step
    diff: str = ""
    problem: str = ""
    """Why the API server would refuse it."""


class Preview(msgspec.Struct, frozen=True):
    """What would become of the children of one object: the `changes`, or why there are none."""

    resource: Resource
    key: NamespacedName
    changes: list[PlannedChange] = []
    problem: str = ""
    """Why the object would stall."""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would happen."""
        return not self.changes and not self.problem


Selection = Callable[[Resource, NamespacedName], bool]


async def preview_operator(
    client: Client,
    operator: Operator,
    *,
    namespaces: Sequence[str] | None = None,
    select: Selection = lambda resource, key: True,
) -> AsyncIterator[Preview]:
    """Plan for every object of an operator what its next reconcile would do with the children.

    Nothing is written: the API server is asked what it would make of each change (dry run), with
    its defaults and webhooks. What `reconcile` and `finalize` do cannot be foreseen. `select` gets
    the resource and the key of an object and tells whether it is meant; by default all are.

    Raises:
        ConfigurationError: a kind is not served.
        APIError: the API server refuses to be asked.
    """
    for managed in operator.kinds:
        if not managed.is_reconciled:
            continue
        stores = await _read_stores(client, managed, namespaces)
        reconciler = KindReconciler(operator.name, managed)
        for entry in sorted(stores.store(managed.resource).list(), key=lambda entry: entry.key):
            if select(managed.resource, entry.key):
                found = Preview(managed.resource, entry.key)
                try:
                    steps = reconciler.plan(stores, entry)
                except KubewrightError as error:
                    yield Preview(managed.resource, entry.key, problem=str(error))
                    continue
                for step in steps:
                    found.changes.append(await _preview_step(client, operator.name, step))
                yield found


class _Stores:
    """The state of a cluster at one moment, in the form in which a reconcile reads it."""

    def __init__(self, stores: dict[Resource, Store]) -> None:
        self._stores = stores

    def store(self, resource: Resource) -> Store:
        return self._stores[resource]


async def _read_stores(
    client: Client, managed: ManagedKind[Any], namespaces: Sequence[str] | None
) -> _Stores:
    stores = {}
    optional = managed.optional_children
    for resource in (managed.resource, *(kind.resource for kind in managed.owns.values())):
        client.mapper.add(resource)
        scopes = list(namespaces or ()) if resource.namespaced else []
        store = Store(resource, scopes=scopes or [ALL_NAMESPACES])
        for scope in scopes or [ALL_NAMESPACES]:
            try:
                page = await client.list_raw(resource, namespace=scope or None)
            except NotFound as error:
                if resource in optional:
                    store.note_unserved(scope=scope)
                    continue
                raise ConfigurationError(
                    f"the API server does not serve {resource}: install its definition first"
                ) from error
            store.replace(page.items, page.resource_version, scope=scope)
        stores[resource] = store
    return _Stores(stores)


async def _preview_step(client: Client, manager: str, step: Step) -> PlannedChange:
    if step.action is Action.DELETE:
        return PlannedChange(step, diff_objects(step.live, None))
    if step.action not in (Action.CREATE, Action.APPLY) or step.obj is None:
        return PlannedChange(step)
    try:
        after: Object = await client.apply(
            guard(step.obj, step.live), field_manager=manager, dry_run=True
        )
    except APIError as error:
        problem = str(error)
        if step.kind.on_immutable == "recreate" and is_immutable_refusal(error):
            problem = f"it is deleted and made anew: {error}"
        return PlannedChange(step, problem=problem)
    except UnicodeEncodeError:
        return PlannedChange(step, problem=str(build_encoding_refusal(step)))
    return PlannedChange(step, diff_objects(step.live, after))
