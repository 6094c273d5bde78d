"""LimitRanger: default resources of containers, and bounds on what pods and claims take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from kubewright.api.errors import Forbidden, StatusDetails
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.quota.pod_amounts import add_amounts, pod_amounts

_ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, str]


class LimitRanger:
    """Applies the LimitRanges of the namespace to new pods, and to claims."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in what the containers of a new pod leave out."""
        pod = attributes.obj
        if pod is None or not _is_new_pod(attributes):
            return
        notes: list[str] = []
        for limits in self._read(attributes.namespace):
            defaults, requests = _container_defaults(limits)
            for key, what in (("containers", "container"), ("initContainers", "init container")):
                for container in pod["spec"].get(key) or ():
                    notes += _fill(container, defaults, requests, what)
        if notes:
            metadata = pod["metadata"]
            text = f"LimitRanger plugin set: {'; '.join(notes)}"
            metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}

    async def validate(self, attributes: Attributes) -> None:
        """Refuse what lies outside the bounds.

        Raises:
            Forbidden: an amount is too small or too large, or a bounded one is missing.
        """
        obj, resource = attributes.obj, attributes.kind.resource
        is_claim = not resource.group and resource.plural == "persistentvolumeclaims"
        if obj is None or attributes.subresource or not (is_claim or _is_new_pod(attributes)):
            return
        find = _claim_faults if is_claim else _pod_faults
        for limits in self._read(attributes.namespace):
            if faults := [fault for item in limits for fault in find(item, obj)]:
                text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
                raise Forbidden(
                    f'{resource.plural} "{attributes.name}" is forbidden: {text}',
                    StatusDetails(name=attributes.name, kind=resource.plural),
                )

    def _read(self, namespace: str) -> Iterator[list[Object]]:
        prefix = f"{key_prefix('', 'limitranges')}{namespace}/"
        for item in self._backend.store.scan(prefix):
            yield (decode_json(item.value).get("spec") or {}).get("limits") or []


def _is_new_pod(attributes: Attributes) -> bool:
    resource = attributes.kind.resource
    is_pod = not resource.group and resource.plural == "pods"
    return is_pod and attributes.operation == "CREATE" and not attributes.subresource


def _container_defaults(limits: list[Object]) -> tuple[Amounts, Amounts]:
    defaults: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in limits:
        if item.get("type") == "Container":
            defaults |= item.get("default") or {}
            requests |= item.get("defaultRequest") or {}
    return defaults, requests


def _fill(container: Object, defaults: Amounts, requests: Amounts, what: str) -> list[str]:
    """Fill in a container's resources, in place; return what was set in words."""
    resources = container.get("resources") or {}
    notes: list[str] = []
    for key, source, word in (("requests", requests, "request"), ("limits", defaults, "limit")):
        given = resources.get(key) or {}
        added = {name: amount for name, amount in source.items() if name not in given}
        if added:
            resources = {**resources, key: {**given, **added}}
            notes.append(f"{', '.join(sorted(added))} {word} for {what} {container.get('name')}")
    container["resources"] = resources
    return notes


def _pod_faults(item: Object, pod: Object) -> Iterator[str]:
    spec = pod["spec"]
    if item.get("type") == "Container":
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                resources = container.get("resources") or {}
                requests, limits = (add_amounts([resources.get(k)]) for k in ("requests", "limits"))
                yield from _faults(item, requests, limits)
    elif item.get("type") == "Pod":
        yield from _faults(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _claim_faults(item: Object, claim: Object) -> Iterator[str]:
    if item.get("type") != "PersistentVolumeClaim":
        return
    resources = (claim.get("spec") or {}).get("resources") or {}
    requests = add_amounts([resources.get("requests")])
    yield from _check_least(item, requests, {})
    for name, (where, bound) in _bounds(item, "max"):
        if name not in requests:
            yield f"maximum {where}.  No request is specified"
        elif requests[name] > bound:
            yield f"maximum {where}, but request is {requests[name]}"


def _faults(
    item: Object, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]
) -> Iterator[str]:
    yield from _check_least(item, requests, limits)
    for name, (where, bound) in _bounds(item, "max"):
        if name not in limits:
            yield f"maximum {where}.  No limit is specified"
        elif limits[name] > bound:
            yield f"maximum {where}, but limit is {limits[name]}"
        elif name in requests and requests[name] > bound:
            yield f"maximum {where}, but request is {requests[name]}"
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        where = f"{name} max limit to request ratio per {item.get('type')} is {ratio}, but"
        request, limit = (_value(amounts, name) for amounts in (requests, limits))
        if not request:
            yield f"{where} no request is specified or request is 0"
        elif not limit:
            yield f"{where} no limit is specified or limit is 0"
        elif limit / request > Quantity(ratio).value:
            yield f"{where} provided ratio is {limit / request:f}"


def _check_least(
    item: Object, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]
) -> Iterator[str]:
    for name, (where, bound) in _bounds(item, "min"):
        if name not in requests:
            yield f"minimum {where}.  No request is specified"
        elif requests[name] < bound:
            yield f"minimum {where}, but request is {requests[name]}"
        elif name in limits and limits[name] < bound:
            yield f"minimum {where}, but limit is {limits[name]}"


def _bounds(item: Object, key: str) -> Iterator[tuple[str, tuple[str, Quantity]]]:
    for name, amount in sorted((item.get(key) or {}).items()):
        yield name, (f"{name} usage per {item.get('type')} is {amount}", Quantity(amount))


def _value(amounts: Mapping[str, Quantity], name: str) -> Decimal:
    return amounts[name].value if name in amounts else Decimal(0)
