"""The status of an autoscaler, as one look at it builds it up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubewright.api.conditions import Condition, ConditionStatus, is_condition_true, set_condition
from kubewright.api.resource import Object
from kubewright.api.time import format_time

ABLE_TO_SCALE = "AbleToScale"
SCALING_ACTIVE = "ScalingActive"
SCALING_LIMITED = "ScalingLimited"
SCALED_TO_ZERO = "ScaledToZero"


class AutoscalerStatus:
    """Collects what a look at an autoscaler finds out; nothing is written here."""

    def __init__(self, autoscaler: Object, now: datetime) -> None:
        self._autoscaler = autoscaler
        self._now = format_time(now)
        self._before: Object = autoscaler.get("status") or {}
        self._status: Object = dict(self._before)

    def set(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:
        """Set a condition; its time changes with its status only."""
        condition = Condition(type, status, reason, message)
        before: Sequence[Object] = self._status.get("conditions") or ()
        self._status["conditions"] = set_condition(before, condition, now=self._now)

    @property
    def is_scaled_to_zero(self) -> bool:
        """Tell whether it was the autoscaler that took the last replica away."""
        return is_condition_true({"status": self._status}, SCALED_TO_ZERO)

    @property
    def desired(self) -> int:
        """The replicas that were wanted at the last look."""
        return int(self._before.get("desiredReplicas") or 0)

    def finish(
        self,
        current: int,
        desired: int,
        metrics: Sequence[Object] | None,
        *,
        rescaled: bool = False,
    ) -> None:
        """Say what was found and decided; without metrics none were asked for."""
        self._status["currentReplicas"] = current
        self._status["desiredReplicas"] = desired
        self._status["currentMetrics"] = None if metrics is None else list(metrics)
        if generation := self._autoscaler["metadata"].get("generation"):
            self._status["observedGeneration"] = generation
        if rescaled:
            self._status["lastScaleTime"] = self._now
        if not current:
            del self._status["currentReplicas"]

    def build(self) -> Object | None:
        """Return the autoscaler with its status; None where nothing has changed."""
        status = {"desiredReplicas": 0, "currentMetrics": None, **self._status}
        before = {"desiredReplicas": 0, "currentMetrics": None, **self._before}
        return None if status == before else {**self._autoscaler, "status": status}
