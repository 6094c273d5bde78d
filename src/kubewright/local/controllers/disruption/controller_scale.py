"""How many pods the controllers of some pods want: from stores, else by the scale subresource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from kubewright.api import builtin
from kubewright.api.errors import KubewrightError, NotFound, Remedy
from kubewright.api.metadata import controller_of
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object, Resource
from kubewright.local.controllers.replicaset.scale import wished_replicas
from kubewright.runtime.context import Context


class ScaleUnknown(KubewrightError):
    """A pod's controller does not tell how many pods it wants; only a change can help."""

    remedy: ClassVar[Remedy] = Remedy.WAIT_FOR_CHANGE


class ExpectedScale(msgspec.Struct, frozen=True):
    """The pods that all controllers together want, and the names of pods that have none."""

    count: int
    unmanaged: tuple[str, ...] = ()


async def read_expected_scale(ctx: Context, pods: Sequence[Object]) -> ExpectedScale:
    """Add up what the controllers of pods of one namespace want, each controller once.

    The stores of ReplicaSets, Deployments and StatefulSets spare requests for the kinds that are
    everywhere. Any other kind is asked by its scale subresource.

    Raises:
        ScaleUnknown: a controller is gone, of an unknown kind, or cannot be scaled.
        APIError: the API server refused to tell.
    """
    scales: dict[str, int] = {}
    unmanaged: list[str] = []
    asked: set[str] = set()
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            unmanaged.append(pod["metadata"]["name"])
            continue
        if reference["uid"] in asked:
            continue
        asked.add(reference["uid"])
        found = _find_in_stores(ctx, reference, pod["metadata"]["namespace"])
        if found is None:
            found = await _read_scale(ctx, reference, pod)
        scales[found[0]] = found[1]
    return ExpectedScale(sum(scales.values()), tuple(unmanaged))


def _find_in_stores(
    ctx: Context, reference: Mapping[str, Any], namespace: str
) -> tuple[str, int] | None:
    """Return the UID and the replicas of the workload behind a reference."""
    kind = GroupVersionKind.parse(reference["apiVersion"], reference["kind"]).group_kind
    if kind == builtin.STATEFUL_SET.gvk.group_kind:
        return _wish(_find(ctx, builtin.STATEFUL_SET, reference, namespace))
    if kind != builtin.REPLICA_SET.gvk.group_kind:
        return None
    replica_set = _find(ctx, builtin.REPLICA_SET, reference, namespace)
    if replica_set is None:
        return None
    owner = controller_of(replica_set)
    if owner is None or owner["kind"] != "Deployment":
        return _wish(replica_set)
    return _wish(_find(ctx, builtin.DEPLOYMENT, owner, namespace))


def _find(
    ctx: Context, resource: Resource, reference: Mapping[str, Any], namespace: str
) -> Object | None:
    found = ctx.get(resource, NamespacedName(namespace, reference["name"]))
    return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None


def _wish(workload: Object | None) -> tuple[str, int] | None:
    return None if workload is None else (workload["metadata"]["uid"], wished_replicas(workload))


async def _read_scale(ctx: Context, reference: Mapping[str, Any], pod: Object) -> tuple[str, int]:
    gvk = GroupVersionKind.parse(reference["apiVersion"], reference["kind"])
    nobody = ScaleUnknown(f'found no controllers for pod "{pod["metadata"]["name"]}"')
    try:
        resource = await ctx.client.mapper.resource_for(gvk)
    except NotFound as error:
        raise ScaleUnknown(
            f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
        ) from error
    namespace = pod["metadata"]["namespace"] if resource.namespaced else None
    try:
        scale = await ctx.client.get(
            resource, reference["name"], namespace=namespace, subresource="scale"
        )
    except NotFound as error:
        if await _has_scale(ctx, resource):
            raise nobody from error
        raise ScaleUnknown(
            f"{resource.group_resource} does not implement the scale subresource"
        ) from error
    if scale["metadata"].get("uid") != reference["uid"]:
        raise nobody
    return reference["uid"], int((scale.get("spec") or {}).get("replicas") or 0)


async def _has_scale(ctx: Context, resource: Resource) -> bool:
    """Tell whether a resource has the scale subresource: a missing one is NotFound as well."""
    gvk = resource.gvk
    path = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"
    document = msgspec.json.decode(await ctx.client.request("GET", path))
    wanted = f"{resource.plural}/scale"
    return any(
        entry["name"] == wanted and entry["kind"] == "Scale" for entry in document["resources"]
    )
