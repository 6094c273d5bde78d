"""The three metrics APIs, as an aggregated API server serves them: resource, custom, external."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from kubewright.api.errors import (
    APIError,
    KubewrightError,
    NotFound,
    ServiceUnavailable,
    TransportError,
)
from kubewright.api.quantity import Quantity
from kubewright.api.resource import GroupVersionKind, Object
from kubewright.api.time import parse_time
from kubewright.client.client import Client
from kubewright.local.controllers.horizontal_pod_autoscaler.pod_samples import (
    MetricUnavailable,
    PodSample,
    Samples,
    parse_duration,
    read_samples,
)
from kubewright.local.controllers.horizontal_pod_autoscaler.refusal import describe_refusal
from kubewright.local.controllers.selector_query import format_query

_CUSTOM = "custom.metrics.k8s.io"
_CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
_EXTERNAL = "external.metrics.k8s.io"
_RESOURCE = "metrics.k8s.io"
_WINDOW = timedelta(minutes=1)


class MetricsAPI:
    """Reads metrics of one namespace.

    Every method raises MetricUnavailable where it cannot get what it is asked for.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read_resource(self, resource: str, container: str, selector: str) -> Samples:
        """Read the usage of a resource by pods: of one container, or with "" of all of them."""
        path = f"/apis/{_RESOURCE}/v1beta1/namespaces/{self._namespace}/pods"
        query = [("labelSelector", selector)]
        items = await self._read(path, query, f"pods.{_RESOURCE}", "resource")
        return read_samples(items, resource, container)

    async def read_pods(self, metric: Object, selector: str) -> Samples:
        """Read a custom metric of the selected pods."""
        query = [("labelSelector", selector), *_metric_query(metric)]
        path = f"namespaces/{self._namespace}/pods/*/{metric['name']}"
        samples: Samples = {}
        for item in await self._read_custom(path, query, f"pods.{_CUSTOM} *"):
            seconds = item.get("windowSeconds", item.get("window"))
            window = _WINDOW if seconds is None else _read_window(seconds)
            value, time = Quantity(item["value"]).to_milli(), parse_time(item["timestamp"])
            samples[item["describedObject"]["name"]] = PodSample(value, time, window)
        return samples

    async def read_object(self, metric: Object, described: Object) -> int:
        """Read a custom metric of one object, in thousandths."""
        name, path = described["name"], f"namespaces/{self._namespace}/"
        gvk = GroupVersionKind.parse(described.get("apiVersion") or "", described["kind"])
        if gvk.kind == "Namespace" and not gvk.group:
            # An autoscaler sees no other namespace than its own, whatever the name says.
            path, told = f"{path}metrics/{metric['name']}", f"metrics.{_CUSTOM} {metric['name']}"
        else:
            resource = await self._find_resource(gvk)
            path += f"{resource}/{name}/{metric['name']}"
            told = f"{resource}.{_CUSTOM} {name}"
        items = await self._read_custom(path, _metric_query(metric), told)
        if len(items) != 1:
            raise _unavailable(
                "custom",
                f"the custom metrics API server returned {len(items)} results when we asked for "
                "exactly one",
            )
        return Quantity(items[0]["value"]).to_milli()

    async def read_external(self, metric: Object) -> list[int]:
        """Read the values of a metric that no object of the cluster has, in thousandths."""
        name = metric["name"]
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{self._namespace}/{name}"
        query = [("labelSelector", format_query(metric.get("selector")))]
        items = await self._read(path, query, f"{name}.{_EXTERNAL}", "external")
        return [Quantity(item["value"]).to_milli() for item in items]

    async def _find_resource(self, gvk: GroupVersionKind) -> str:
        try:
            return str((await self._client.mapper.resource_for(gvk)).group_resource)
        except NotFound as error:
            kind = f"{gvk.kind}.{gvk.group}" if gvk.group else gvk.kind
            raise _unavailable(
                "custom", f"unable to map kind {kind} to resource: {error}"
            ) from error

    async def _read_custom(
        self, path: str, query: Sequence[tuple[str, str]], told: str
    ) -> Sequence[Mapping[str, Any]]:
        version = await self._find_version()
        return await self._read(f"/apis/{_CUSTOM}/{version}/{path}", query, told, "custom")

    async def _find_version(self) -> str:
        try:
            body = await self._client.request("GET", f"/apis/{_CUSTOM}")
            served = {each["version"] for each in msgspec.json.decode(body)["versions"]}
        except (NotFound, ServiceUnavailable, msgspec.DecodeError, KeyError, TypeError):
            served = set()
        except KubewrightError as error:
            raise _unavailable("custom", str(error)) from error
        for version in _CUSTOM_VERSIONS:
            if version in served:
                return version
        raise _unavailable("custom", f"no custom metrics API ({_CUSTOM}) registered")

    async def _read(
        self, path: str, query: Sequence[tuple[str, str]], told: str, kind: str
    ) -> Sequence[Mapping[str, Any]]:
        """Read the items of a list; `told` is what an error says that was asked for."""
        asked = [(name, value) for name, value in query if value]
        try:
            body = await self._client.request("GET", path, query=asked)
            items: Sequence[Mapping[str, Any]] = msgspec.json.decode(body).get("items") or ()
        except APIError as error:
            raise _unavailable(kind, describe_refusal(error, told)) from error
        except (TransportError, msgspec.DecodeError) as error:
            raise _unavailable(kind, str(error)) from error
        if not items:
            raise MetricUnavailable(f"no metrics returned from {kind} metrics API")
        return items


def _metric_query(metric: Object) -> list[tuple[str, str]]:
    return [("metricLabelSelector", format_query(metric.get("selector")))]


def _read_window(seconds: int | str) -> timedelta:
    return parse_duration(seconds) if isinstance(seconds, str) else timedelta(seconds=seconds)


def _unavailable(kind: str, text: str) -> MetricUnavailable:
    return MetricUnavailable(f"unable to fetch metrics from {kind} metrics API: {text}")
