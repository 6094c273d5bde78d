"""Validation of the status of a Job: it goes one way only, whoever manages the Job (KEP-4368).

A rule is asked only where the fields that it is about have changed: a spec that changes may make a
status wrong for a while, and its controller must be able to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.apiserver.builtin.checks import check_numbers
from kubewright.local.apiserver.builtin.internal_form import show_internal
from kubewright.local.apiserver.builtin.job_indexes import (
    IndexesError,
    count_indexes,
    find_overlap,
)
from kubewright.local.apiserver.field_error import duplicate, invalid, required

_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
_NOT_EMPTY = "must not be empty"
_CONDITIONS = "status.conditions"


def validate_job_status(obj: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of the status of a Job."""
    view = _Change(obj, old)
    # In the order of the API server, which the message keeps.
    return [
        *check_numbers(view.new, _COUNTERS, "status"),
        *_check_uncounted(view.new.get("uncountedTerminatedPods") or {}),
        *view.check_end(),
        *view.check_finished(),
        *view.check_formats(),
        *view.check_indexes(),
        *view.check_pods(),
        *view.check_criteria(),
        *view.check_direction(),
        *view.check_moments(),
        *view.check_order_of_criteria(),
    ]


def _faulty_conditions(detail: str) -> Cause:
    # The value is left out of these messages.
    return Cause("FieldValueInvalid", f"Invalid value: {detail}", _CONDITIONS)


def _check_uncounted(uncounted: Object) -> list[Cause]:
    causes, seen = [], set()
    for outcome in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(outcome) or ()):
            place = f"status.uncountedTerminatedPods.{outcome}[{index}]"
            if not uid:
                causes.append(invalid(place, uid, _NOT_EMPTY))
            elif uid in seen:
                causes.append(duplicate(place, uid))
            seen.add(uid)
    return causes


def _has(status: Object, type: str, state: str = "True") -> bool:
    return any(
        item.get("type") == type and item.get("status") == state
        for item in status.get("conditions") or ()
    )


class _Change:
    """A change of a status, and what of it changes."""

    def __init__(self, obj: Object, old: Object) -> None:
        self.spec: Object = obj["spec"]
        self.new: Object = obj.get("status") or {}
        self.old: Object = old.get("status") or {}

    @cached_property
    def is_indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @cached_property
    def is_finished(self) -> bool:
        return _has(self.new, "Complete") or _has(self.new, "Failed")

    @cached_property
    def finishes(self) -> bool:
        """Whether the Job begins or ceases to be finished."""
        return self.is_finished != (_has(self.old, "Complete") or _has(self.old, "Failed"))

    def turns(self, *types: str) -> bool:
        """Tell whether one of these conditions becomes True, or ceases to be."""
        return any(_has(self.new, type) != _has(self.old, type) for type in types)

    def changes(self, *fields: str) -> bool:
        return any(self.new.get(field) != self.old.get(field) for field in fields)

    def check_end(self) -> Iterator[Cause]:
        """Check that the conditions and times of an end fit together."""
        complete, failed = _has(self.new, "Complete"), _has(self.new, "Failed")
        met, target = _has(self.new, "SuccessCriteriaMet"), _has(self.new, "FailureTarget")
        if complete and failed and self.turns("Complete", "Failed"):
            yield _faulty_conditions("cannot set Complete=True and Failed=true conditions")
        if complete and target and self.turns("Complete", "FailureTarget"):
            yield _faulty_conditions("cannot set Complete=True and FailureTarget=true conditions")
        yield from self._check_completion(complete=complete)
        if failed and not target and (self.turns("Failed") or self.changes("failedIndexes")):
            text = "cannot set Failed=True condition without the FailureTarget=true condition"
            yield _faulty_conditions(text)
        if complete and not met and self.turns("Complete", "SuccessCriteriaMet"):
            text = (
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            )
            yield _faulty_conditions(text)

    def _check_completion(self, *, complete: bool) -> Iterator[Cause]:
        place = "status.completionTime"
        start, end = self.new.get("startTime"), self.new.get("completionTime")
        if self.turns("Complete") or self.changes("completionTime"):
            if end and not complete:
                detail = "cannot set completionTime when there is no Complete=True condition"
                yield invalid(place, end, detail)
            if complete and not end:
                yield required(place, "completionTime is required for Complete jobs")
        moved = self.changes("startTime", "completionTime")
        if moved and start and end and parse_time(end) < parse_time(start):
            yield invalid(place, end, "must be equal to or after `startTime`")

    def check_finished(self) -> Iterator[Cause]:
        """Check that nothing of a finished Job runs or is uncounted, and that it was started."""
        if not self.is_finished:
            return
        yield from self._check_none_left("active")
        never_runs = self.spec.get("suspend") and self.spec.get("completions") == 0
        asked = self.finishes or self.changes("startTime")
        if asked and not never_runs and not self.new.get("startTime"):
            yield required("status.startTime", "startTime is required for finished job")
        uncounted = self.new.get("uncountedTerminatedPods") or {}
        if any(uncounted.values()) and (self.finishes or self.changes("uncountedTerminatedPods")):
            place = "status.uncountedTerminatedPods"
            shown = show_internal(uncounted, "UncountedPods")
            yield invalid(place, shown, "must be empty for finished job")

    def _check_none_left(self, field: str) -> Iterator[Cause]:
        count = self.new.get(field) or 0
        if count > 0 and (self.finishes or self.changes(field)):
            yield invalid(f"status.{field}", count, f"{field}>0 is invalid for finished job")

    def check_formats(self) -> Iterator[Cause]:
        """Check that indexes are lists of indexes of the Job."""
        per_index = self.spec.get("backoffLimitPerIndex") is not None
        completions = self.spec.get("completions")
        for field in ("completedIndexes", *(("failedIndexes",) if per_index else ())):
            text = self.new.get(field) or ""
            if completions is None or not self.changes(field):
                continue
            try:
                count_indexes(text, completions)
            except IndexesError as error:
                yield invalid(f"status.{field}", text, f"error parsing {field}: {error}")

    def check_indexes(self) -> Iterator[Cause]:
        """Check that only Jobs with indexes have some, and each at most one fate."""
        completed, failed = self.new.get("completedIndexes") or "", self.new.get("failedIndexes")
        if self.changes("completedIndexes") and completed and not self.is_indexed:
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid("status.completedIndexes", completed, detail)
        place = "status.failedIndexes"
        per_index = self.spec.get("backoffLimitPerIndex") is not None
        if self.changes("failedIndexes") and failed is not None and not per_index:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield invalid(place, failed, detail)
        completions = self.spec.get("completions")
        if completions is not None and failed and self.changes("failedIndexes", "completedIndexes"):
            index = find_overlap(completed, failed, completions)
            if index is not None:
                detail = f"failedIndexes and completedIndexes overlap at index: {index}"
                yield invalid(place, failed, detail)

    def check_pods(self) -> Iterator[Cause]:
        """Check the numbers of pods that end, and of those that are ready."""
        if self.is_finished:
            yield from self._check_none_left("terminating")
        active, ready = self.new.get("active") or 0, self.new.get("ready")
        if self.changes("ready", "active") and ready is not None and ready > active:
            yield invalid("status.ready", ready, "cannot set more ready pods than active")

    def check_criteria(self) -> Iterator[Cause]:
        """Check that a Job whose criteria are met does not fail."""
        met = _has(self.new, "SuccessCriteriaMet")
        if met and _has(self.new, "Failed"):
            text = "cannot set SuccessCriteriaMet=True and Failed=true conditions"
            yield _faulty_conditions(text)
        if met and _has(self.new, "FailureTarget"):
            text = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"
            yield _faulty_conditions(text)
        if self.spec.get("successPolicy") is not None and _has(self.new, "Complete") and not met:
            text = "cannot set Complete=True for Job with SuccessPolicy unless"
            yield _faulty_conditions(f"{text} SuccessCriteriaMet=True")

    def check_direction(self) -> Iterator[Cause]:
        """Check that what was once reached stays."""
        for type in ("Failed", "Complete", "FailureTarget"):
            if _has(self.old, type) and not _has(self.new, type):
                yield _faulty_conditions(f"cannot disable the terminal {type}=True condition")
        scaled = self.is_indexed and self.spec.get("completions") == self.spec.get("parallelism")
        for field in ("failed", *(() if scaled else ("succeeded",))):
            count = self.new.get(field) or 0
            if count < (self.old.get(field) or 0):
                yield invalid(f"status.{field}", count, f"cannot decrease the {field} counter")

    def check_moments(self) -> Iterator[Cause]:
        """Check that times stay: that of the start until the Job is resumed."""
        end = self.new.get("completionTime")
        if end and self.old.get("completionTime") not in (None, end):
            yield invalid("status.completionTime", end, "field is immutable")
        resumes = _has(self.old, "Suspended") and _has(self.new, "Suspended", "False")
        started = self.old.get("startTime") and not self.spec.get("suspend")
        if started and self.changes("startTime") and not resumes:
            detail = "field is immutable for unsuspended job once set"
            yield invalid("status.startTime", self.new.get("startTime"), detail)

    def check_order_of_criteria(self) -> Iterator[Cause]:
        """Check that criteria are met before the end, and for good."""
        met, was_met = _has(self.new, "SuccessCriteriaMet"), _has(self.old, "SuccessCriteriaMet")
        if was_met and not met:
            yield _faulty_conditions("cannot disable the SuccessCriteriaMet=True condition")
        if met and not was_met and _has(self.old, "Complete"):
            text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true"
            yield _faulty_conditions(f"{text} conditions")
