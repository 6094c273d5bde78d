"""A Job as its controller sees it: the spec and the status with the API's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

from kubewright.api.conditions import find_condition
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.job.indexes import Indexes
from kubewright.local.controllers.workload import Workload

COMPLETE = "Complete"
FAILED = "Failed"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
SUSPENDED = "Suspended"

_OURSELVES = "kubernetes.io/job-controller"
_MODES = ("NonIndexed", "Indexed")


class Job(Workload, frozen=True):
    """Typed reads of a decoded Job."""

    @property
    def has_known_mode(self) -> bool:
        """Tell whether the completion mode is one that this controller can run."""
        return self.spec.get("completionMode", "NonIndexed") in _MODES

    @property
    def is_indexed(self) -> bool:
        """Tell whether each completion has an index."""
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def is_suspended(self) -> bool:
        """Tell whether the Job may have no pods now."""
        return bool(self.spec.get("suspend"))

    @property
    def is_managed_elsewhere(self) -> bool:
        """Tell whether `spec.managedBy` names another controller, which then does everything."""
        return bool(self.spec.get("managedBy", _OURSELVES) != _OURSELVES)

    @cached_property
    def parallelism(self) -> int:
        """How many pods may be active at once."""
        return int(self.spec.get("parallelism", 1))

    @cached_property
    def completions(self) -> int | None:
        """How many pods must succeed; None where one success ends the Job."""
        completions = self.spec.get("completions")
        return None if completions is None else int(completions)

    @cached_property
    def index_count(self) -> int:
        """How many indexes an Indexed Job has."""
        return self.completions or 0

    @cached_property
    def backoff_limit(self) -> int:
        """How many pods may fail."""
        return int(self.spec.get("backoffLimit", 6))

    @cached_property
    def backoff_limit_per_index(self) -> int | None:
        """How many pods of one index may fail; None where only the Job as a whole counts."""
        limit = self.spec.get("backoffLimitPerIndex")
        return None if limit is None else int(limit)

    @property
    def counts_per_index(self) -> bool:
        """Tell whether failures are counted for each index."""
        return self.backoff_limit_per_index is not None

    @property
    def replaces_only_failed(self) -> bool:
        """Tell whether a pod is replaced when it has failed, not as soon as it is asked to end."""
        return bool(self.spec.get("podReplacementPolicy") == "Failed")

    @property
    def failure_policy(self) -> Object | None:
        """What failures of pods mean, where the Job says so."""
        return self.spec.get("podFailurePolicy")

    @property
    def is_finished(self) -> bool:
        """Tell whether the Job is Complete or Failed; nothing is done for it any more."""
        return self.finished_condition is not None

    @property
    def is_ending(self) -> bool:
        """Tell whether it is decided how the Job ends; its pods end by its own hand then."""
        return bool(
            self.true_condition(SUCCESS_CRITERIA_MET) or self.true_condition(FAILURE_TARGET)
        )

    @property
    def finished_condition(self) -> Object | None:
        """The condition that says that the Job is Complete or Failed."""
        return self.true_condition(COMPLETE) or self.true_condition(FAILED)

    def true_condition(self, type: str) -> Object | None:
        """Return the condition of a type, if its status is True."""
        condition = find_condition(self.status.get("conditions") or (), type)
        return condition if condition is not None and condition.get("status") == "True" else None

    def count(self, name: str) -> int:
        """Return a counter of the status."""
        return int(self.status.get(name) or 0)

    def uncounted(self, outcome: str) -> list[str]:
        """Return UIDs of pods that ended but are not in a counter yet: `succeeded` or `failed`."""
        uncounted: Mapping[str, list[str]] = self.status.get("uncountedTerminatedPods") or {}
        return list(uncounted.get(outcome) or ())

    def indexes(self, name: str) -> Indexes:
        """Return indexes of the status: `completedIndexes` or `failedIndexes`."""
        return Indexes.parse(self.status.get(name) or "", self.index_count)

    def deadline(self, start: datetime | None) -> datetime | None:
        """Return when a Job that started then has been active for too long."""
        seconds = self.spec.get("activeDeadlineSeconds")
        if seconds is None or start is None or self.is_suspended:
            return None
        return start + timedelta(seconds=int(seconds))

    @property
    def start(self) -> datetime | None:
        """When the Job was started, or last resumed."""
        text = self.status.get("startTime")
        return parse_time(text) if text else None
