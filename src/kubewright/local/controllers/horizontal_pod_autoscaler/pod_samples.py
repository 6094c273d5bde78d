"""The samples of a metric for pods, and which of the pods count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubewright.api.errors import KubewrightError
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.pod import is_pod_terminating, ready_condition

CPU_INITIALIZATION_PERIOD = timedelta(minutes=5)
INITIAL_READINESS_DELAY = timedelta(seconds=30)

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class MetricUnavailable(KubewrightError):
    """A metric cannot be had, or not be used; the message says why."""


class PodSample(msgspec.Struct, frozen=True):
    """What a metric said of one pod: `value` in thousandths, over the `window` before `time`."""

    value: int
    time: datetime
    window: timedelta


Samples = dict[str, PodSample]
"""The samples of pods by name."""


class PodGroups(msgspec.Struct):
    """Pods by how their samples are to be taken.

    `ready` counts those whose samples count; those that are `unready` are too young for theirs to
    say anything, `missing` ones should have one, and `ignored` ones do not matter.
    """

    ready: int = 0
    unready: set[str] = set()
    missing: set[str] = set()
    ignored: set[str] = set()


def read_samples(metrics: Iterable[Mapping[str, Any]], resource: str, container: str) -> Samples:
    """Read items of a PodMetricsList (metrics.k8s.io): one container's, or with "" all of a pod's.

    A pod with a container that has no value has no sample.
    """
    samples: Samples = {}
    for item in metrics:
        usages = [
            (used.get("usage") or {}).get(resource)
            for used in item.get("containers") or ()
            if container in ("", used.get("name"))
        ]
        if usages and None not in usages:
            value: int = sum(Quantity(usage or "0").to_milli() for usage in usages)
            window = parse_duration(item.get("window") or "0s")
            name = item["metadata"]["name"]
            samples[name] = PodSample(value, parse_time(item["timestamp"]), window)
    return samples


def parse_duration(text: str) -> timedelta:
    """Read a duration as Go writes it, such as `1m30.5s`."""
    seconds, number, unit = 0.0, "", ""
    for letter in f"{text}0":
        if letter.isdigit() or letter == ".":
            if unit:
                seconds += float(number) * _UNITS[unit]
                number, unit = "", ""
            number += letter
        else:
            unit += letter
    return timedelta(seconds=seconds)


def group_pods(
    pods: Iterable[Object], samples: Mapping[str, PodSample], resource: str, now: datetime
) -> PodGroups:
    """Sort pods by how their samples are to be taken; only of `cpu` young ones are unready."""
    groups = PodGroups()
    for pod in pods:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if is_pod_terminating(pod) or phase == "Failed":
            groups.ignored.add(name)
        elif phase == "Pending":
            groups.unready.add(name)
        elif name not in samples:
            groups.missing.add(name)
        elif resource == "cpu" and _is_starting(pod, samples[name], now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_starting(pod: Object, sample: PodSample, now: datetime) -> bool:
    """Tell whether a pod may still be busy with its own start, so that its sample says nothing."""
    condition, begun = ready_condition(pod), (pod.get("status") or {}).get("startTime")
    if condition is None or begun is None:
        return True
    start = parse_time(begun)
    changed = parse_time(condition.get("lastTransitionTime") or begun)
    is_unready = condition.get("status") == "False"
    if start + CPU_INITIALIZATION_PERIOD > now:
        return is_unready or sample.time < changed + sample.window
    return is_unready and start + INITIAL_READINESS_DELAY > changed


def read_requests(pods: Iterable[Object], resource: str, container: str) -> dict[str, int]:
    """Return what pods request, in thousandths, by name.

    Raises:
        MetricUnavailable: a container does not say, or is not there.
    """
    return {pod["metadata"]["name"]: _read_request(pod, resource, container) for pod in pods}


def _read_request(pod: Object, resource: str, container: str) -> int:
    name, spec = pod["metadata"]["name"], pod["spec"]
    whole = (spec.get("resources") or {}).get("requests")
    if whole and not container:
        if resource not in whole:
            raise MetricUnavailable(f"missing pod-level request for {resource} in Pod {name}")
        return Quantity(whole[resource]).to_milli()
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    total = 0
    for each in [*(spec.get("containers") or ()), *sidecars]:
        if container not in ("", each["name"]):
            continue
        request = ((each.get("resources") or {}).get("requests") or {}).get(resource)
        if request is None:
            raise MetricUnavailable(
                f"missing request for {resource} in container {each['name']} of Pod {name}"
            )
        total += Quantity(request).to_milli()
        if container:
            return total
    if container:
        raise MetricUnavailable(f"container {container} not found in Pod {name}")
    return total
