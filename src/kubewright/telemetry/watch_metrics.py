"""How the reflectors of a cache follow the API server, and how much the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kubewright.cache.cache import Cache
from kubewright.cache.reflector import Reflector

_LABELS = ["resource", "namespace"]


class WatchMetrics:
    """Read the reflectors when asked: following a watch costs nothing for being measured.

    `resource` is as messages have it (`deployments.apps`); `namespace` is empty for a watch of all.
    """

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._caches: list[Cache] = []
        registry.register(self)

    def add(self, cache: Cache) -> None:
        """Measure the reflectors of a cache, also those that it will have."""
        self._caches.append(cache)

    def collect(self) -> Iterator[Metric]:
        """Build what is only known when it is asked for."""
        watches = CounterMetricFamily(
            "kubewright_watches_total", "Watches opened; all but the first restart.", labels=_LABELS
        )
        failures = CounterMetricFamily(
            "kubewright_watch_failures_total", "Lists and watches that failed.", labels=_LABELS
        )
        relists = CounterMetricFamily(
            "kubewright_watch_relists_total", "Times the state was read anew.", labels=_LABELS
        )
        contact = GaugeMetricFamily(
            "kubewright_watch_last_contact_seconds",
            "Seconds since the server last said something; -1 before it did.",
            labels=_LABELS,
        )
        behind = GaugeMetricFamily(
            "kubewright_watch_behind_seconds",
            "For how long the store may be behind the server; 0 while it follows.",
            labels=_LABELS,
        )
        objects = GaugeMetricFamily(
            "kubewright_cache_objects", "Objects in the cache.", labels=["resource"]
        )
        now = self._monotonic()
        sizes: dict[str, int] = {}
        for reflector in self._reflectors():
            resource = reflector.store.resource.group_resource
            labels = [resource, reflector.namespace]
            watches.add_metric(labels, reflector.watches)
            failures.add_metric(labels, reflector.failures)
            relists.add_metric(labels, reflector.relists)
            contact.add_metric(labels, _seconds_since(reflector.last_contact, now, -1.0))
            behind.add_metric(labels, _seconds_since(reflector.failing_since, now, 0.0))
            sizes[resource] = len(reflector.store)
        for resource, size in sizes.items():
            objects.add_metric([resource], size)
        yield from (watches, failures, relists, contact, behind, objects)

    def _reflectors(self) -> Iterator[Reflector]:
        """Go through the reflectors, one for each pair of labels.

        Two of one kind and namespace, with different selectors, would be one series twice.
        """
        seen = set()
        for cache in self._caches:
            for reflector in cache.reflectors:
                labels = (reflector.store.resource.group_resource, reflector.namespace)
                if labels not in seen:
                    seen.add(labels)
                    yield reflector


def _seconds_since(then: float | None, now: float, otherwise: float) -> float:
    return otherwise if then is None else max(now - then, 0.0)
