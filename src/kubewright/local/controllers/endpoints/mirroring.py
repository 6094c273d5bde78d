"""Endpoints that somebody wrote by hand, mirrored into EndpointSlices (KEP-1412)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubewright.api import builtin
from kubewright.api.errors import NamespaceTerminating, NotFound
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Entry
from kubewright.local.controllers.endpoints.backend import (
    ENDPOINT_SLICE,
    ENDPOINTS,
    TRIGGER_TIME,
)
from kubewright.local.controllers.endpoints.slices import MANAGED_BY, SERVICE_NAME
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.watch import Watch

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"

_LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", TRIGGER_TIME})
_COPIED = ("hostname", "nodeName", "targetRef")
_FAMILIES = ("IPv4", "IPv6")


def build_mirroring_controller() -> Controller:
    """Build the controller that mirrors the Endpoints of Services without a selector."""
    return Controller(
        "endpointslice-mirroring-controller",
        ENDPOINTS,
        reconcile,
        owns=[ENDPOINT_SLICE],
        watches=[Watch(builtin.SERVICE, _same_name)],
    )


def _same_name(service: Entry) -> Iterable[NamespacedName]:
    return (service.key,)


async def reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    """Bring the mirrors of one Endpoints object up to date."""
    endpoints = ctx.get(ENDPOINTS, key)
    if endpoints is None:
        return None
    service = ctx.get(builtin.SERVICE, key)
    existing = [
        obj
        for obj in ctx.list(ENDPOINT_SLICE, owner=endpoints["metadata"]["uid"])
        if (obj["metadata"].get("labels") or {}).get(MANAGED_BY) == CONTROLLER
    ]
    wanted = list(build_mirrors(endpoints)) if is_mirrored(endpoints, service) else []
    try:
        for before, mirror in zip(existing, wanted, strict=False):
            if not _is_same(before, mirror):
                metadata = {**before["metadata"], **_visible(mirror)}
                await ctx.replace({**mirror, "metadata": metadata})
        for mirror in wanted[len(existing) :]:
            await ctx.create(mirror)
        for obj in existing[len(wanted) :]:
            await ctx.delete(ENDPOINT_SLICE, NamespacedName.of(obj), uid=obj["metadata"]["uid"])
    except (NotFound, NamespaceTerminating):
        return None
    return None


def is_mirrored(endpoints: Object, service: Object | None) -> bool:
    """Tell whether nobody else makes slices for Endpoints: those of selectors have them already."""
    metadata = endpoints["metadata"]
    if (metadata.get("labels") or {}).get(SKIP) == "true":
        return False
    if _LEADER in (metadata.get("annotations") or {}):
        return False
    return service is not None and not service["spec"].get("selector")


def build_mirrors(endpoints: Object) -> Iterator[Object]:
    """Build one slice for each subset and address family."""
    metadata = endpoints["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        SERVICE_NAME: metadata["name"],
        MANAGED_BY: CONTROLLER,
    }
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name not in _NOT_COPIED
    }
    for subset in endpoints.get("subsets") or ():
        for family in _FAMILIES:
            mirrored = list(_build_endpoints(subset, family))
            if mirrored:
                mirror: Object = {
                    "generateName": f"{metadata['name']}-",
                    "namespace": metadata["namespace"],
                    "labels": labels,
                    "ownerReferences": [build_owner_reference(endpoints)],
                }
                if annotations:
                    mirror["annotations"] = annotations
                yield {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": mirror,
                    "addressType": family,
                    "endpoints": mirrored,
                    "ports": [{"name": "", **port} for port in subset.get("ports") or ()],
                }


def _build_endpoints(subset: Object, family: str) -> Iterator[Object]:
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(field) or ():
            if (":" in address["ip"]) == (family == "IPv6"):
                kept = {
                    k: address[k] for k in ("hostname", "nodeName", "targetRef") if k in address
                }
                conditions = {"ready": ready}
                yield {"addresses": [address["ip"]], "conditions": conditions, **kept}


def _visible(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {name: metadata[name] for name in ("labels", "annotations") if name in metadata}


def _is_same(before: Object, wanted: Object) -> bool:
    fields = ("addressType", "endpoints", "ports")
    return _visible(before) == _visible(wanted) and all(
        (before.get(field) or []) == (wanted.get(field) or []) for field in fields
    )
