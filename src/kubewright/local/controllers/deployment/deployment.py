"""A Deployment as a rollout sees it: its strategy in numbers."""

from __future__ import annotations

from functools import cached_property

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.local.controllers.deployment.replica_set import REVISION
from kubewright.local.controllers.workload import Workload

# The API's way of saying "no deadline": the largest int32.
_NO_DEADLINE = 2**31 - 1


class Deployment(Workload, frozen=True):
    """Typed reads of a decoded Deployment; the defaults are the API's."""

    @property
    def generation(self) -> int:
        """The generation of the spec."""
        return int(self.obj["metadata"].get("generation") or 0)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations."""
        return self.obj["metadata"].get("annotations") or {}

    @property
    def revision(self) -> str | None:
        """The revision that the Deployment says it is at."""
        return self.annotations.get(REVISION)

    @cached_property
    def replicas(self) -> int:
        """The wished pods."""
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else int(replicas)

    @property
    def is_paused(self) -> bool:
        """Tell whether the template must not be rolled out."""
        return bool(self.spec.get("paused"))

    @property
    def is_recreate(self) -> bool:
        """Tell whether old pods end before new ones start."""
        return bool((self.spec.get("strategy") or {}).get("type") == "Recreate")

    @cached_property
    def _fenceposts(self) -> tuple[int, int]:
        """Surge and unavailable; both 0 would never move, so one may then be unavailable."""
        if self.is_recreate:
            return 0, 0
        rolling = (self.spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = resolve(rolling.get("maxSurge", "25%"), self.replicas, round_up=True)
        unavailable = resolve(rolling.get("maxUnavailable", "25%"), self.replicas, round_up=False)
        return surge, unavailable if surge or unavailable else 1

    @property
    def max_surge(self) -> int:
        """The pods that there may be above `replicas`, rounded up from a percentage."""
        return self._fenceposts[0]

    @property
    def max_unavailable(self) -> int:
        """The pods that may be missing from `replicas`, rounded down from a percentage."""
        return min(self._fenceposts[1], self.replicas)

    @property
    def min_available(self) -> int:
        """The pods that must stay available during a rolling update."""
        return self.replicas - self.max_unavailable

    @property
    def min_ready_seconds(self) -> int:
        """How long a pod must be ready to count as available."""
        return int(self.spec.get("minReadySeconds") or 0)

    @property
    def progress_deadline(self) -> int | None:
        """The seconds after which a rollout without progress is reported; None for never."""
        seconds = self.spec.get("progressDeadlineSeconds")
        return None if seconds is None or seconds >= _NO_DEADLINE else int(seconds)

    @property
    def history_limit(self) -> int | None:
        """How many old ReplicaSets are kept; None for all."""
        limit = self.spec.get("revisionHistoryLimit")
        return None if limit is None or limit >= _NO_DEADLINE else int(limit)

    def count(self, name: str) -> int:
        """Return a count of the status as it was last written."""
        return int(self.status.get(name) or 0)

    @property
    def progressing(self) -> Object | None:
        """The condition Progressing as it was last written."""
        return find_condition(self.status.get("conditions") or (), "Progressing")


def resolve(value: int | str, of: int, *, round_up: bool) -> int:
    """Turn a number or a percentage of `of` into a number (IntOrString, API conventions).

    Exact arithmetic: a float would turn 100 % of some numbers into one more.
    """
    if isinstance(value, int):
        return max(value, 0)
    percent = int(value.removesuffix("%"))
    return -(-percent * of // 100) if round_up else percent * of // 100
