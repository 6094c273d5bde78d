"""Finalizers: keep a deleted object until its operator has cleaned up. One among others.

The list of finalizers is shared: an operator that writes it whole may drop another's. Here every
change is a JSON patch that names one position and tests what stands there, and whose object it is:
one that was made under the same name meanwhile keeps its own.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.errors import APIError, Conflict
from kubewright.api.resource import NamespacedName, Object, Resource
from kubewright.client.requests import PatchType
from kubewright.runtime.context import Context


def has_finalizer(obj: Object, finalizer: str) -> bool:
    """Tell whether an object has a finalizer."""
    return finalizer in ((obj.get("metadata") or {}).get("finalizers") or ())


def plan_ensure_finalizer(obj: Object, finalizer: str) -> list[Any]:
    """Return the JSON patch that adds a finalizer; empty when it is there.

    The API refuses new finalizers on an object that is being deleted.
    """
    if has_finalizer(obj, finalizer):
        return []
    metadata = obj["metadata"]
    if metadata.get("finalizers"):
        return [
            _test_identity(obj),
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ]
    # Adding the list itself would replace one that came meanwhile: only for this very version.
    version = metadata["resourceVersion"]
    return [
        _test_identity(obj),
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
    ]


def plan_remove_finalizer(obj: Object, finalizer: str) -> list[Any]:
    """Return the JSON patch that removes a finalizer; empty when it is not there."""
    if not has_finalizer(obj, finalizer):
        return []
    path = f"/metadata/finalizers/{obj['metadata']['finalizers'].index(finalizer)}"
    return [
        _test_identity(obj),
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ]


def _test_identity(obj: Object) -> Object:
    return {"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]}


async def ensure_finalizer(ctx: Context, kind: Resource, obj: Object, finalizer: str) -> Object:
    """Add a finalizer unless it is there; return the object as it is then.

    Raises:
        Conflict: the list changed since the object was read.
    """
    return await _patch(ctx, kind, obj, plan_ensure_finalizer(obj, finalizer))


async def remove_finalizer(ctx: Context, kind: Resource, obj: Object, finalizer: str) -> Object:
    """Remove a finalizer unless it is gone; the object may end with it.

    Raises:
        Conflict: the list changed since the object was read.
        NotFound: the object is gone.
    """
    return await _patch(ctx, kind, obj, plan_remove_finalizer(obj, finalizer))


async def _patch(ctx: Context, kind: Resource, obj: Object, patch: list[Any]) -> Object:
    if not patch:
        return obj
    try:
        return await ctx.patch(kind, NamespacedName.of(obj), patch, type=PatchType.JSON)
    except APIError as error:
        # A failed test is a 422; its meaning here is that of a conflict: read again.
        if error.code == 422:
            raise Conflict(error.message, error.details) from error
        raise
