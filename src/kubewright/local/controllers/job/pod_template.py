"""The pods of a Job as they are made. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.local.controllers.job.job import Job
from kubewright.local.controllers.job.job_pod import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    completion_index,
    ignored_failures,
    index_failures,
)
from kubewright.local.controllers.job.policies import match_failure
from kubewright.local.controllers.job.tally import Tally
from kubewright.local.controllers.replicaset.pod_names import PodNames

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

# The API cuts a generated name's prefix to leave 63 characters with five letters after it.
_PREFIX_LENGTH = 58


def names_of(job: Job, index: int | None) -> PodNames:
    """Return the names for pods of one index, or of a Job without indexes.

    A name follows from the pods that are there: to create one twice is refused by the API server.
    """
    name = job.key.name
    if index is None:
        return PodNames(name, job.uid)
    suffix = f"-{index}"
    return PodNames(name[: _PREFIX_LENGTH - len(suffix) - 1] + suffix, f"{job.uid}/{index}")


def build_pod(job: Job, tally: Tally, index: int | None, name: str, generate_name: str) -> Object:
    """Build a pod of a Job, with its index where it has one."""
    template = job.spec["template"]
    given = template.get("metadata") or {}
    finalizers = list(given.get("finalizers") or ())
    if TRACKING_FINALIZER not in finalizers:
        finalizers.append(TRACKING_FINALIZER)
    metadata: Object = {
        "name": name,
        "generateName": generate_name,
        "namespace": job.key.namespace,
        **{key: dict(given[key]) for key in ("labels", "annotations") if given.get(key)},
        "finalizers": finalizers,
        "ownerReferences": [build_owner_reference(job.obj)],
    }
    spec = deepcopy(template.get("spec") or {})
    if index is not None:
        metadata["labels"] = {**metadata.get("labels", {}), COMPLETION_INDEX: str(index)}
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            COMPLETION_INDEX: str(index),
            **_failure_counts(job, tally.held.get(index)),
        }
        spec["hostname"] = f"{job.key.name}-{index}"
    if job.is_indexed:
        _add_index_variable(spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _failure_counts(job: Job, replaced: Object | None) -> dict[str, str]:
    """Return the annotations that carry an index's failures over to its next pod."""
    if not job.counts_per_index:
        return {}
    failures, ignored = 0, 0
    if replaced is not None:
        is_counted = match_failure(job, replaced).is_counted
        failures = index_failures(replaced) + is_counted
        ignored = ignored_failures(replaced) + (not is_counted)
    counts = {FAILURE_COUNT: str(failures)}
    return {**counts, IGNORED_FAILURE_COUNT: str(ignored)} if ignored else counts


def _add_index_variable(spec: Object) -> None:
    field = f"metadata.labels['{COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": field}}}
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            variables = container.get("env") or []
            if not any(each.get("name") == INDEX_VARIABLE for each in variables):
                container["env"] = [*variables, variable]


class NameSource:
    """Names for the pods that one look at a Job makes."""

    def __init__(
        self,
        job: Job,
        pods: Sequence[Object],
        is_taken: Callable[[str], bool],
        used: dict[int | None, int],
    ) -> None:
        self._job = job
        self._existing: dict[int | None, list[str]] = {}
        for pod in pods:
            index = completion_index(pod) if job.is_indexed else None
            self._existing.setdefault(index, []).append(pod["metadata"]["name"])
        self._is_taken = is_taken
        self._used = used
        self._free: dict[int | None, tuple[PodNames, Iterator[str]]] = {}

    def take(self, index: int | None) -> tuple[str, str]:
        """Return the next free name of an index, and the prefix that it stands for."""
        if index not in self._free:
            names = names_of(self._job, index)
            after = self._used.get(index, -1)
            existing = self._existing.get(index, ())
            free = names.next_names(existing, self._is_taken, after=after)
            self._free[index] = names, free
        names, free = self._free[index]
        return next(free), names.generate_name

    def note_used(self, index: int | None, name: str) -> None:
        """Remember that a pod of this name was made: it is not used again soon."""
        number = self._free[index][0].index(name)
        if number is not None:
            self._used[index] = max(number, self._used.get(index, -1))
