"""What a pod takes of the resources of a namespace: requests and limits of all its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object


def add_amounts(parts: Iterable[Mapping[str, str] | None]) -> dict[str, Quantity]:
    """Add up amounts by the name of the resource."""
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in (part or {}).items():
            quantity = Quantity(amount)
            if name in total:
                quantity.value += total[name].value
            total[name] = quantity
    return total


def pod_amounts(spec: Object, key: str) -> dict[str, Quantity]:
    """Return the `requests` or `limits` of a pod as a whole.

    Init containers run one after another, before the others: of these and the sum of the others the
    larger counts. Those that are restarted (sidecars) run beside all that follow. Pod-level
    resources replace the sum, the overhead is added (KEP-753, KEP-2837).
    """
    total = add_amounts(_amounts(container, key) for container in spec.get("containers") or ())
    sidecars: list[Mapping[str, str]] = []
    peaks: list[dict[str, Quantity]] = []
    for container in spec.get("initContainers") or ():
        own = _amounts(container, key)
        if container.get("restartPolicy") == "Always":
            sidecars.append(own)
            peaks.append(add_amounts(sidecars))
        else:
            peaks.append(add_amounts([*sidecars, own]))
    total = _sum(total, add_amounts(sidecars))
    for peak in peaks:
        for name, quantity in peak.items():
            if name not in total or total[name] < quantity:
                total[name] = quantity
    total |= add_amounts([_amounts(spec, key)])
    return _sum(total, add_amounts([spec.get("overhead")])) if total else total


def _amounts(holder: Object, key: str) -> Mapping[str, str]:
    amounts: Mapping[str, str] = (holder.get("resources") or {}).get(key) or {}
    return amounts


def _sum(left: dict[str, Quantity], right: dict[str, Quantity]) -> dict[str, Quantity]:
    for name, quantity in right.items():
        if name in left:
            left[name].value += quantity.value
        else:
            left[name] = quantity
    return left
