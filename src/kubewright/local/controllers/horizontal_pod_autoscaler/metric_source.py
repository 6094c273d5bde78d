"""One entry of `spec.metrics`: how many replicas it asks for, and its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import Tolerances
from kubewright.local.controllers.horizontal_pod_autoscaler.calculation import (
    measure_average,
    measure_utilization,
    propose_by_ratio,
    propose_for_pods,
    propose_per_pod,
    select_values,
    sum_values,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.metrics_api import MetricsAPI
from kubewright.local.controllers.horizontal_pod_autoscaler.pod_samples import (
    MetricUnavailable,
    Samples,
    read_requests,
)
from kubewright.local.controllers.selector_text import format_selector


class Proposal(msgspec.Struct, frozen=True):
    """The replicas that a metric asks for; `metric` names it in Events and conditions."""

    replicas: int
    metric: str
    status: Object


class InvalidMetric(MetricUnavailable):
    """A metric cannot be evaluated.

    Attributes:
        reason: That of the Event and the condition, such as `FailedGetResourceMetric`.
        cause: What these say.
    """

    def __init__(self, message: str, reason: str, cause: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.cause = cause


class Target(msgspec.Struct, frozen=True):
    """What an autoscaler scales, as it is now.

    `wanted` are the replicas of its spec, `observed` those of its status; `selector` selects its
    `pods`.
    """

    namespace: str
    wanted: int
    observed: int
    selector: str
    pods: Sequence[Object]


class MetricSource:
    """Evaluates metrics for one target."""

    def __init__(
        self, api: MetricsAPI, target: Target, tolerances: Tolerances, now: datetime
    ) -> None:
        self._api = api
        self._target = target
        self._tolerances = tolerances
        self._now = now

    async def evaluate(self, metric: Object) -> Proposal:
        """Ask for a metric and calculate what it asks for.

        Raises:
            InvalidMetric: it cannot be had, or not be used.
        """
        match metric.get("type"):
            case "Resource":
                return await self._evaluate_resource(metric["resource"])
            case "ContainerResource":
                return await self._evaluate_container(metric["containerResource"])
            case "Pods":
                return await self._evaluate_pods(metric["pods"])
            case "Object":
                return await self._evaluate_object(metric["object"])
            case "External":
                return await self._evaluate_external(metric["external"])
        text = f'unknown metric source type "{metric.get("type") or ""}"'
        raise InvalidMetric(text, "InvalidMetricSourceType", text)

    async def _evaluate_resource(self, source: Object) -> Proposal:
        name = source["name"]
        try:
            replicas, current = await self._propose_by_resource(name, source["target"], "")
        except MetricUnavailable as error:
            text = f"failed to get {name} resource metric value: {error}"
            raise InvalidMetric(text, "FailedGetResourceMetric", str(error)) from error
        told = "resource"
        if "averageUtilization" in current:
            told = "resource utilization (percentage of request)"
        status = {"type": "Resource", "resource": {"name": name, "current": current}}
        return Proposal(replicas, f"{name} {told}", status)

    async def _evaluate_container(self, source: Object) -> Proposal:
        name, container = source["name"], source["container"]
        try:
            replicas, current = await self._propose_by_resource(name, source["target"], container)
        except MetricUnavailable as error:
            text = f"failed to get {container} container metric value: {error}"
            raise InvalidMetric(text, "FailedGetContainerResourceMetric", str(error)) from error
        told = "resource"
        if "averageUtilization" in current:
            told = "container resource utilization (percentage of request)"
        part = {"name": name, "container": container, "current": current}
        status = {"type": "ContainerResource", "containerResource": part}
        return Proposal(replicas, f"{name} {told}", status)

    async def _propose_by_resource(
        self, name: str, target: Mapping[str, Any], container: str
    ) -> tuple[int, Object]:
        average, percent = target.get("averageValue"), target.get("averageUtilization")
        if average is not None:
            prefix = f"failed to get {name} usage: "
        elif percent is not None:
            prefix = f"failed to get {name} utilization: "
        else:
            raise MetricUnavailable(
                "invalid resource metric source: neither an average utilization target nor an "
                "average value (usage) target was set"
            )
        try:
            samples = await self._read_resource(name, container)
            if average is not None:
                replicas, usage = self._propose_plain(samples, average, name)
                return replicas, {"averageValue": _write_amount(usage, name)}
            return self._propose_by_utilization(samples, name, int(percent or 0), container)
        except MetricUnavailable as error:
            raise MetricUnavailable(f"{prefix}{error}") from error

    async def _read_resource(self, name: str, container: str) -> Samples:
        try:
            return await self._api.read_resource(name, container, self._target.selector)
        except MetricUnavailable as error:
            raise MetricUnavailable(
                f"unable to get metrics for resource {name}: {error}"
            ) from error

    def _propose_by_utilization(
        self, samples: Samples, name: str, percent: int, container: str
    ) -> tuple[int, Object]:
        pods = self._target.pods
        values, groups = select_values(pods, samples, name, self._now)
        requests = read_requests(pods, name, container)
        proposal = propose_for_pods(
            self._target.wanted,
            values,
            groups,
            measure_utilization(percent, requests),
            full=lambda pod: requests[pod] * max(100, percent) // 100,
            tolerances=self._tolerances,
        )
        measure = proposal.measure
        return proposal.replicas, {
            "averageUtilization": measure.utilization,
            "averageValue": _write_amount(measure.average, name),
        }

    def _propose_plain(self, samples: Samples, average: str, resource: str) -> tuple[int, int]:
        target = Quantity(average).to_milli()
        values, groups = select_values(self._target.pods, samples, resource, self._now)
        proposal = propose_for_pods(
            self._target.wanted,
            values,
            groups,
            measure_average(target),
            full=lambda pod: target,
            tolerances=self._tolerances,
        )
        return proposal.replicas, proposal.measure.average

    async def _evaluate_pods(self, source: Object) -> Proposal:
        metric = source["metric"]
        try:
            try:
                samples = await self._api.read_pods(metric, self._target.selector)
            except MetricUnavailable as error:
                raise MetricUnavailable(
                    f"unable to get metric {metric['name']}: {error}"
                ) from error
            replicas, usage = self._propose_plain(samples, source["target"]["averageValue"], "")
        except MetricUnavailable as error:
            text = f"failed to get pods metric value: {error}"
            raise InvalidMetric(text, "FailedGetPodsMetric", str(error)) from error
        part = {"metric": metric, "current": {"averageValue": _write_amount(usage)}}
        return Proposal(replicas, f"pods metric {metric['name']}", {"type": "Pods", "pods": part})

    async def _evaluate_object(self, source: Object) -> Proposal:
        metric, described, target = source["metric"], source["describedObject"], source["target"]
        prefix = "failed to get object metric value: "
        try:
            if target.get("type") == "Value" and target.get("value") is not None:
                usage = await self._read_object(metric, described)
                ratio = usage / Quantity(target["value"]).to_milli()
                replicas = self._propose_by_ratio(ratio)
                told = f"{described['kind']} metric {metric['name']}"
                current = {"value": _write_amount(usage)}
            elif target.get("type") == "AverageValue" and target.get("averageValue") is not None:
                prefix += f"failed to get {metric['name']} object metric: "
                usage = await self._read_object(metric, described)
                replicas, part = self._propose_per_pod(usage, target["averageValue"])
                told = _tell_external(metric)
                current = {"averageValue": _write_amount(part)}
            else:
                raise MetricUnavailable(
                    "invalid object metric source: neither a value target nor an average value "
                    "target was set"
                )
        except MetricUnavailable as error:
            text = f"{prefix}{error}"
            raise InvalidMetric(text, "FailedGetObjectMetric", str(error)) from error
        status = {"metric": metric, "current": current, "describedObject": described}
        return Proposal(replicas, told, {"type": "Object", "object": status})

    async def _read_object(self, metric: Object, described: Object) -> int:
        try:
            return await self._api.read_object(metric, described)
        except MetricUnavailable as error:
            where = f"{described['kind']} {self._target.namespace}/{described['name']}"
            raise MetricUnavailable(
                f"unable to get metric {metric['name']} on {where}: {error}"
            ) from error

    async def _evaluate_external(self, source: Object) -> Proposal:
        metric, target = source["metric"], source["target"]
        name = metric["name"]
        prefix = f"failed to get {name} external metric value: "
        try:
            if target.get("averageValue") is not None:
                prefix += f"failed to get {name} external metric: "
                usage = await self._read_external(metric)
                replicas, part = self._propose_per_pod(usage, target["averageValue"])
                current = {"averageValue": _write_amount(part)}
            elif target.get("value") is not None:
                prefix += f"failed to get external metric {name}: "
                usage = await self._read_external(metric)
                replicas = self._propose_by_ratio(usage / Quantity(target["value"]).to_milli())
                current = {"value": _write_amount(usage)}
            else:
                raise MetricUnavailable(
                    "invalid external metric source: neither a value target nor an average value "
                    "target was set"
                )
        except MetricUnavailable as error:
            text = f"{prefix}{error}"
            raise InvalidMetric(text, "FailedGetExternalMetric", str(error)) from error
        status = {"metric": metric, "current": current}
        return Proposal(replicas, _tell_external(metric), {"type": "External", "external": status})

    async def _read_external(self, metric: Object) -> int:
        try:
            return sum_values(await self._api.read_external(metric))
        except MetricUnavailable as error:
            told = f"{self._target.namespace}/{metric['name']}/"
            told += format_selector(metric.get("selector"))
            raise MetricUnavailable(f"unable to get external metric {told}: {error}") from error

    def _propose_by_ratio(self, ratio: float) -> int:
        target = self._target
        return propose_by_ratio(target.wanted, ratio, target.pods, self._tolerances)

    def _propose_per_pod(self, usage: int, average: str) -> tuple[int, int]:
        per_pod = Quantity(average).to_milli()
        return propose_per_pod(self._target.observed, usage, per_pod, self._tolerances)


def _tell_external(metric: Object) -> str:
    return f"external metric {metric['name']}({format_selector(metric.get('selector'))})"


def _write_amount(milli: int, resource: str = "") -> str:
    """Write thousandths as a quantity: of memory with binary suffixes, as the metrics API does."""
    amount = Quantity("0Ki" if resource == "memory" else "0")
    amount.value = Decimal(milli).scaleb(-3)
    return str(amount)
