"""How far one step of an autoscaler may go. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

import msgspec

from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import Behavior, Rules
from kubewright.local.controllers.horizontal_pod_autoscaler.history import History

MAX_REPLICAS = 2**31 - 1

_FACTOR = 2
_LEAST_LIMIT = 4


class Limited(msgspec.Struct, frozen=True):
    """The replicas of the next step, and what the condition ScalingLimited says of them."""

    replicas: int
    reason: str
    message: str


_TOO_FEW = "the desired replica count is less than the minimum replica count"
_TOO_MANY = "the desired replica count is more than the maximum replica count"
_TOO_FAST_UP = "the desired replica count is increasing faster than the maximum scale rate"
_TOO_FAST_DOWN = "the desired replica count is decreasing faster than the maximum scale rate"
_WITHIN = "the desired count is within the acceptable range"


def limit_step(current: int, wish: int, low: int, high: int) -> Limited:
    """Limit a wish by the bounds, and to twice the replicas or 4, whichever is more."""
    fastest = max(_FACTOR * current, _LEAST_LIMIT)
    if wish < low:
        return Limited(low, "TooFewReplicas", _TOO_FEW)
    if wish > min(fastest, high):
        if high > fastest:
            return Limited(fastest, "ScaleUpLimit", _TOO_FAST_UP)
        return Limited(high, "TooManyReplicas", _TOO_MANY)
    return Limited(wish, "DesiredWithinRange", _WITHIN)


def limit_by_behavior(
    behavior: Behavior,
    history: History,
    current: int,
    wish: int,
    bounds: tuple[int, int],
    now: datetime,
) -> Limited:
    """Limit a wish by the bounds and by the policies of the behavior."""
    low, high = bounds
    if wish > current:
        fastest = max(_limit_up(behavior.up, history, current, now), current)
        if wish > min(fastest, high):
            if high > fastest:
                return Limited(fastest, "ScaleUpLimit", _TOO_FAST_UP)
            return Limited(high, "TooManyReplicas", _TOO_MANY)
    elif wish < current:
        fastest = min(_limit_down(behavior.down, history, current, now), current)
        if wish < max(fastest, low):
            if low < fastest:
                return Limited(fastest, "ScaleDownLimit", _TOO_FAST_DOWN)
            return Limited(low, "TooFewReplicas", _TOO_FEW)
    return Limited(wish, "DesiredWithinRange", _WITHIN)


def _limit_up(rules: Rules, history: History, current: int, now: datetime) -> int:
    if rules.select == "Disabled":
        return current
    choose: Callable[[list[int]], int] = min if rules.select == "Min" else max
    limits = []
    for policy in rules.policies:
        before = history.replicas_before(current, policy.seconds, now)
        if policy.type == "Pods":
            limits.append(before + policy.value)
        else:
            # Rounded up: a few replicas would else never become more.
            limits.append(math.ceil(before * (1 + policy.value / 100)))
    return min(choose(limits), MAX_REPLICAS)


def _limit_down(rules: Rules, history: History, current: int, now: datetime) -> int:
    if rules.select == "Disabled":
        return current
    choose: Callable[[list[int]], int] = max if rules.select == "Min" else min
    limits = []
    for policy in rules.policies:
        before = history.replicas_before(current, policy.seconds, now)
        if policy.type == "Pods":
            limits.append(before - policy.value)
        else:
            limits.append(int(before * (1 - policy.value / 100)))
    return choose(limits)
