"""Which waiting pods a change wakes."""

from __future__ import annotations

import msgspec
from tests.local.controllers.objects import build_claim, build_pod, build_volume

from kubewright.api import builtin
from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import Object
from kubewright.cache.entry import Entry
from kubewright.client.objects import RawObject
from kubewright.local.controllers.scheduler.refusal import Plugin
from kubewright.local.controllers.scheduler.waiting import FREED, STORED, Waiting


def entry(obj: Object) -> Entry:
    raw = msgspec.json.encode(obj)
    return Entry(builtin.POD, RawObject(decode_metadata(raw), raw))


def waiting_pod(name: str, *claims: str, priority: int = 0) -> Object:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return build_pod(name, node="", volumes=volumes, priority=priority)


def build_waiting() -> Waiting:
    waiting = Waiting()
    waiting.add(waiting_pod("one", "data"), STORED)
    waiting.add(waiting_pod("urgent", "data", "other", priority=5), STORED)
    waiting.add(waiting_pod("other", "other"), STORED)
    waiting.add(waiting_pod("full", "data"), frozenset((Plugin.RESOURCES,)))
    return waiting


def test_a_claim_wakes_the_pods_that_mount_it_the_most_important_first() -> None:
    waiting = build_waiting()
    woken = [key.name for key in waiting.helped_by_claim(entry(build_claim("data")))]
    assert woken == ["urgent", "one"]


def test_a_volume_wakes_the_pods_of_its_claim_and_a_free_one_all() -> None:
    waiting = build_waiting()
    bound = build_volume(claimRef={"namespace": "ns", "name": "other"})
    assert [key.name for key in waiting.helped_by_volume(entry(bound))] == ["urgent", "other"]
    elsewhere = build_volume(claimRef={"namespace": "else", "name": "other"})
    assert list(waiting.helped_by_volume(entry(elsewhere))) == []
    free = {key.name for key in waiting.helped_by_volume(entry(build_volume()))}
    assert free == {"one", "urgent", "other"}


def test_a_pod_that_waits_no_more_is_not_woken() -> None:
    waiting = build_waiting()
    for key in list(waiting):
        waiting.remove(key)
    assert list(waiting.helped(FREED)(entry(build_pod()))) == []
    assert list(waiting.helped_by_claim(entry(build_claim("data")))) == []
