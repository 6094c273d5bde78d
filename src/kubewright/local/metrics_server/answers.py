"""What is answered to requests for metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.errors import BadRequest, NotFound, StatusDetails
from kubewright.api.resource import NamespacedName, Object
from kubewright.cache.entry import Entry
from kubewright.cache.store import Store
from kubewright.client.clock import Clock
from kubewright.local.controllers.selector_query import parse_selector
from kubewright.local.metrics_server.metrics_objects import (
    GROUP,
    VERSION,
    build_group,
    build_list,
    build_node_metrics,
    build_pod_metrics,
    build_resource_list,
    build_table,
)
from kubewright.local.metrics_server.usage_store import UsageStore


class PathUnknown(Exception):
    """Nothing is served at a path."""


class MetricsAnswers:
    """Answers from what is known of nodes, pods and their usage; nothing waits."""

    def __init__(self, nodes: Store, pods: Store, usage: UsageStore, clock: Clock) -> None:
        self._nodes = nodes
        self._pods = pods
        self._usage = usage
        self._clock = clock

    def answer(self, path: str, query: Mapping[str, str], *, as_table: bool = False) -> Object:
        """Answer a GET.

        Raises:
            NotFound: there is no such node or pod, or nothing is known of its usage yet.
            BadRequest: a selector cannot be read.
            PathUnknown: nothing is served there.
        """
        match path.strip("/").split("/"):
            case ["apis", group] if group == GROUP:
                return build_group()
            case ["apis", group, version] if (group, version) == (GROUP, VERSION):
                return build_resource_list()
            case ["apis", group, version, *rest] if (group, version) == (GROUP, VERSION):
                return self._answer_resource(rest, query, as_table=as_table)
        raise PathUnknown(path)

    def _answer_resource(
        self, parts: Sequence[str], query: Mapping[str, str], *, as_table: bool
    ) -> Object:
        match parts:
            case ["nodes"]:
                return self._list("NodeMetrics", self._measure_nodes(query), as_table=as_table)
            case ["pods"]:
                return self._list("PodMetrics", self._measure_pods(None, query), as_table=as_table)
            case ["namespaces", namespace, "pods"]:
                items = self._measure_pods(namespace, query)
                return self._list("PodMetrics", items, as_table=as_table)
            case ["nodes", name]:
                return self._one(self._find_node(name), as_table=as_table)
            case ["namespaces", namespace, "pods", name]:
                found = self._find_pod(NamespacedName(namespace, name))
                return self._one(found, as_table=as_table)
        raise PathUnknown("/".join(parts))

    def _list(self, kind: str, items: Iterable[Object], *, as_table: bool) -> Object:
        ordered = sorted(
            items, key=lambda i: (i["metadata"].get("namespace", ""), i["metadata"]["name"])
        )
        return build_table(ordered) if as_table else build_list(kind, ordered)

    def _one(self, item: Object, *, as_table: bool) -> Object:
        return build_table([item]) if as_table else item

    def _measure_nodes(self, query: Mapping[str, str]) -> list[Object]:
        found = (self._measure_node(entry) for entry in _select(self._nodes.list(), query))
        return [item for item in found if item is not None]

    def _measure_pods(self, namespace: str | None, query: Mapping[str, str]) -> list[Object]:
        entries = _select(self._pods.list(namespace=namespace), query)
        return [item for entry in entries if (item := self._measure_pod(entry)) is not None]

    def _measure_node(self, entry: Entry) -> Object | None:
        rate = self._usage.node_rate(entry.meta.name)
        return None if rate is None else build_node_metrics(entry.meta, rate, self._clock.now())

    def _measure_pod(self, entry: Entry) -> Object | None:
        rates = self._usage.pod_rates(entry.key)
        return None if rates is None else build_pod_metrics(entry.meta, rates, self._clock.now())

    def _find_node(self, name: str) -> Object:
        entry = self._nodes.get(NamespacedName("", name))
        if entry is None:
            raise _missing("", "nodes", name)
        item = self._measure_node(entry)
        if item is None:
            raise _missing(GROUP, "nodemetrics", name)
        return item

    def _find_pod(self, key: NamespacedName) -> Object:
        name = f"{key.namespace}/{key.name}"
        entry = self._pods.get(key)
        if entry is None:
            raise _missing("", "pods", name)
        item = self._measure_pod(entry)
        if item is None:
            raise _missing(GROUP, "podmetrics", name)
        return item


def _missing(group: str, plural: str, name: str) -> NotFound:
    resource = f"{plural}.{group}" if group else plural
    details = StatusDetails(name=name, group=group, kind=plural)
    return NotFound(f'{resource} "{name}" not found', details)


def _select(entries: Iterable[Entry], query: Mapping[str, str]) -> list[Entry]:
    """Return the entries that the selectors of a request choose."""
    try:
        selector = parse_selector(query.get("labelSelector", ""))
        fields = _parse_fields(query.get("fieldSelector", ""))
    except ValueError as error:
        raise BadRequest(str(error), None) from error
    return [
        entry
        for entry in entries
        if selector.matches(entry.meta.labels)
        and all(getattr(entry.key, field) == value for field, value in fields.items())
    ]


def _parse_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        field, _, value = part.replace("==", "=").partition("=")
        if field not in ("metadata.name", "metadata.namespace"):
            raise ValueError(
                f'"{field}" is not a known field selector: only "metadata.name", '
                '"metadata.namespace"'
            )
        fields[field.removeprefix("metadata.")] = value
    return fields
