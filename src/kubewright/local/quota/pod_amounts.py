"""What a pod takes of the resources of a namespace: requests and limits of all its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubewright.api.conditions import find_condition
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object


def add_amounts(parts: Iterable[Mapping[str, str] | None]) -> dict[str, Quantity]:
    """Add up amounts by the name of the resource; a sum is written as its first amount is."""
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in (part or {}).items():
            _add(total, name, Quantity(amount))
    return total


def _add(total: dict[str, Quantity], name: str, amount: Quantity) -> None:
    before = total.get(name)
    if before is None or not before.value:
        total[name] = amount
    else:
        before.value += amount.value


def pod_amounts(spec: Object, key: str, status: Object | None = None) -> dict[str, Quantity]:
    """Return the `requests` or `limits` of a pod as a whole.

    Init containers run one after another, before the others: of these and the sum of the others the
    larger counts. Those that are restarted (sidecars) run beside all that follow. Pod-level
    resources replace the sum, the overhead is added (KEP-753, KEP-2837).

    With a `status`, what the node has given counts as well while it is more than the spec says: a
    resize takes its time (KEP-1287).
    """
    given = _read_given(status or {}, key)
    containers = spec.get("containers") or ()
    total = add_amounts(given.merge(c, key) for c in containers)
    sidecars: list[Mapping[str, str]] = []
    peaks: list[dict[str, Quantity]] = []
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars.append(given.merge(container, key))
            peaks.append(add_amounts(sidecars))
        else:
            peaks.append(add_amounts([*sidecars, _amounts(container, key)]))
    total = _sum(total, add_amounts(sidecars))
    for peak in peaks:
        for name, quantity in peak.items():
            if name not in total or total[name] < quantity:
                total[name] = quantity
    total |= add_amounts([_amounts(spec, key)])
    return _sum(total, add_amounts([spec.get("overhead")])) if total else total


def is_best_effort(pod: Object) -> bool:
    """Tell whether no container of a pod asks for processor time or memory, nor the pod itself."""
    if known := (pod.get("status") or {}).get("qosClass"):
        return bool(known == "BestEffort")
    spec = pod["spec"]
    holders = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        name in ("cpu", "memory") and Quantity(amount).value > 0
        for holder in holders
        for key in ("requests", "limits")
        for name, amount in _amounts(holder, key).items()
    )


def _amounts(holder: Object, key: str) -> Mapping[str, str]:
    amounts: Mapping[str, str] = (holder.get("resources") or {}).get(key) or {}
    return amounts


class _Given(msgspec.Struct, frozen=True):
    """What the node has given, by container; `is_final` where it refused to give what is asked."""

    amounts: Mapping[str, Mapping[str, str]] = {}
    is_final: bool = False

    def merge(self, container: Object, key: str) -> Mapping[str, str]:
        own = _amounts(container, key)
        given = self.amounts.get(container.get("name") or "")
        if given is None:
            return own
        return given if self.is_final else _largest([own, given])


def _read_given(status: Object, key: str) -> _Given:
    amounts: dict[str, Mapping[str, str]] = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            parts = [_amounts(container, key)]
            if key == "requests":
                parts.append(container.get("allocatedResources") or {})
            if largest := _largest(parts):
                amounts[container.get("name") or ""] = largest
    pending = find_condition(status.get("conditions") or (), "PodResizePending") or {}
    return _Given(amounts, pending.get("reason") == "Infeasible")


def _largest(parts: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    largest: dict[str, str] = {}
    for part in parts:
        for name, amount in part.items():
            if name not in largest or Quantity(largest[name]) < Quantity(amount):
                largest[name] = amount
    return largest


def _sum(left: dict[str, Quantity], right: dict[str, Quantity]) -> dict[str, Quantity]:
    for name, quantity in right.items():
        _add(left, name, quantity)
    return left
