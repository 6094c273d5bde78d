"""The decision of the EndpointSlice controller: which slices to write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.endpoints.backend import (
    TRIGGER_TIME,
    Backend,
    Port,
    build_labels,
    build_trigger_time,
)

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
CONTROLLER = "endpointslice-controller.k8s.io"

MAX_ENDPOINTS = 100


class SlicePlan(msgspec.Struct):
    """The slices to create, to replace and to delete."""

    create: list[Object] = []
    update: list[Object] = []
    delete: list[Object] = []


class _Filling(msgspec.Struct):
    ports: tuple[Port, ...]
    backends: list[Backend]
    before: Object | None = None


def plan_slices(
    service: Object, backends: Sequence[Backend], existing: Sequence[Object], family: str
) -> SlicePlan:
    """Decide how the backends of one family are shared out over slices.

    Backends with equal ports share slices of at most 100. A backend stays in the slice it is in,
    so that a change touches few slices. An empty slice is used for others or deleted; the last one
    stays, empty: consumers learn from it that there is nothing.
    """
    groups: dict[tuple[Port, ...], dict[str, Backend]] = {}
    for backend in backends:
        groups.setdefault(backend.ports, {})[backend.address] = backend
    spare = sorted(existing, key=lambda obj: str(obj["metadata"]["name"]))
    fillings: list[_Filling] = []
    for ports, members in groups.items():
        fillings += _fill(ports, members, spare)
    for filling in fillings:
        if filling.before is None and spare:
            filling.before = spare.pop(0)
    if not fillings:
        fillings.append(_Filling((), [], spare.pop(0) if spare else None))
    plan = SlicePlan(delete=spare)
    for filling in fillings:
        wanted = _build_slice(service, filling, family)
        if filling.before is None:
            plan.create.append(wanted)
        elif not _is_same(filling.before, wanted):
            plan.update.append(wanted)
    return plan


def _fill(
    ports: tuple[Port, ...], members: dict[str, Backend], spare: list[Object]
) -> Iterable[_Filling]:
    """Keep members where they are, then fill up, then open new slices; `spare` loses those used."""
    waiting = dict(members)
    wanted = [port.to_object() for port in ports]
    fillings = []
    for obj in [
        obj for obj in spare if (obj.get("ports") or []) == wanted and obj.get("endpoints")
    ]:
        addresses = [endpoint["addresses"][0] for endpoint in obj["endpoints"]]
        kept = [waiting.pop(address) for address in addresses if address in waiting]
        if kept:
            fillings.append(_Filling(ports, kept, obj))
            spare.remove(obj)
    left = iter(waiting.values())
    for filling in fillings:
        filling.backends += islice(left, MAX_ENDPOINTS - len(filling.backends))
    while chunk := list(islice(left, MAX_ENDPOINTS)):
        fillings.append(_Filling(ports, chunk))
    return fillings


def _build_slice(service: Object, filling: _Filling, family: str) -> Object:
    name = service["metadata"]["name"]
    own = {SERVICE_NAME: name, MANAGED_BY: CONTROLLER}
    fresh: Object = {
        "generateName": f"{name}-",
        "namespace": service["metadata"]["namespace"],
        "ownerReferences": [build_owner_reference(service)],
    }
    metadata = dict(filling.before["metadata"]) if filling.before else fresh
    metadata["labels"] = build_labels(service, own)
    metadata["annotations"] = {TRIGGER_TIME: build_trigger_time(service, filling.backends)}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": [backend.to_endpoint() for backend in filling.backends] or None,
        "ports": [port.to_object() for port in filling.ports] or None,
    }


def _is_same(before: Object, wanted: Object) -> bool:
    """Tell whether a slice says what it should; when that began is no reason to write it."""
    same_labels = before["metadata"].get("labels") == wanted["metadata"]["labels"]
    fields = ("addressType", "endpoints", "ports")
    return same_labels and all((before.get(f) or None) == (wanted[f] or None) for f in fields)
