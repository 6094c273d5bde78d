"""How fast an autoscaler may scale: `spec.behavior` with its defaults (KEP-853, KEP-4951). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object

TOLERANCE = 0.1
DOWNSCALE_WINDOW = timedelta(minutes=5)


class Policy(msgspec.Struct, frozen=True):
    """A change that is allowed within some seconds: of `Pods`, or of a `Percent` of replicas."""

    type: str
    value: int
    seconds: int


class Rules(msgspec.Struct, frozen=True):
    """What limits scaling in one direction.

    `select` tells which policy counts: that with the largest change (`Max`), with the smallest
    (`Min`), or that scaling in this direction is `Disabled`.
    """

    window: timedelta
    select: str
    policies: tuple[Policy, ...]

    @property
    def longest_period(self) -> timedelta:
        """The time for which changes must be remembered."""
        return timedelta(seconds=max((policy.seconds for policy in self.policies), default=0))


class Behavior(msgspec.Struct, frozen=True):
    """The rules for both directions."""

    up: Rules
    down: Rules


class Tolerances(msgspec.Struct, frozen=True):
    """How far usage may be from its target without any scaling, as parts of the target."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def holds(self, ratio: float) -> bool:
        """Tell whether a ratio of usage to target is near enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


_UP = Rules(timedelta(), "Max", (Policy("Pods", 4, 15), Policy("Percent", 100, 15)))
_DOWN = Rules(DOWNSCALE_WINDOW, "Max", (Policy("Percent", 100, 15),))


def read_behavior(autoscaler: Object) -> Behavior | None:
    """Read the behavior of an autoscaler; None where it has none, and older rules hold."""
    behavior = autoscaler["spec"].get("behavior")
    if behavior is None:
        return None
    return Behavior(
        _read_rules(behavior.get("scaleUp") or {}, _UP),
        _read_rules(behavior.get("scaleDown") or {}, _DOWN),
    )


def _read_rules(rules: Mapping[str, Any], default: Rules) -> Rules:
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies")
    return Rules(
        default.window if window is None else timedelta(seconds=window),
        rules.get("selectPolicy") or default.select,
        tuple(Policy(p["type"], p["value"], p["periodSeconds"]) for p in policies)
        if policies
        else default.policies,
    )


def read_tolerances(autoscaler: Object) -> Tolerances:
    """Read the tolerances of an autoscaler: its own, or 10 %."""
    behavior = autoscaler["spec"].get("behavior") or {}

    def read(key: str) -> float:
        own = (behavior.get(key) or {}).get("tolerance")
        return TOLERANCE if own is None else float(Quantity(own).value)

    return Tolerances(read("scaleUp"), read("scaleDown"))
