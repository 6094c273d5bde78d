"""Several observers hear all, and those who do nothing with an event are not called."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

from kubewright.api import builtin
from kubewright.api.resource import NamespacedName
from kubewright.runtime.attempt import Attempt
from kubewright.runtime.observer import NoControllerObserver, NoObserver
from kubewright.telemetry.metrics import Metrics
from kubewright.telemetry.observers import combine_observers
from kubewright.telemetry.reconcile_records import ReconcileRecords


class Keys(NoObserver, NoControllerObserver):
    def __init__(self) -> None:
        self.heard: list[tuple[str, Hashable]] = []

    def controller(self, name: str, workers: int) -> NoControllerObserver:
        self.heard.append(("controller", name))
        return self

    def added(self, key: Hashable, priority: int, now: float) -> None:
        self.heard.append(("added", key))

    def leading(self, lease: str, *, is_leading: bool) -> None:
        self.heard.append(("leading", lease))


def test_all_hear_in_their_order_and_one_that_is_detailed_is_enough() -> None:
    metrics, records, keys = Metrics(), ReconcileRecords(), Keys()
    both = combine_observers([metrics, records, keys])
    controller = both.controller("c", 1)
    attempt = Attempt("c", builtin.SECRET, NamespacedName("", "a"), started=0.0, ids=Random(0))

    controller.added("a", 1, 0.0)
    controller.taken("a", 1.0)
    controller.began(attempt)
    controller.reconciled(attempt)
    controller.done("a", 2.0)
    controller.retried("a")
    controller.stalled(1)
    both.leading("lease", is_leading=True)
    both.renewed_slowly("lease")

    assert both.detailed
    assert keys.heard == [("controller", "c"), ("added", "a"), ("leading", "lease")]
    assert len(records) == 1
    value = metrics.registry.get_sample_value
    assert value("workqueue_retries_total", {"name": "c", "controller": "c"}) == 1
    assert value("kubewright_stalled_objects", {"controller": "c"}) == 1
    assert value("leader_election_slowpath_total", {"name": "lease"}) == 1


def test_one_observer_is_taken_as_it_is_and_none_forgets() -> None:
    metrics = Metrics()

    assert combine_observers([metrics]) is metrics
    assert not combine_observers([]).detailed
