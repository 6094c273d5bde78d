from __future__ import annotations

import msgspec
import pytest
from tests.local.controllers.objects import build_pod

from kubewright.api import builtin
from kubewright.api.metadata import decode_metadata
from kubewright.api.resource import Object
from kubewright.cache.store import Store
from kubewright.client.objects import RawObject
from kubewright.local.controllers.unseen import UnseenObjects


def at_version(version: str) -> Object:
    pod = build_pod("made")
    pod["metadata"]["resourceVersion"] = version
    return pod


def raw(obj: Object) -> RawObject:
    text = msgspec.json.encode(obj)
    return RawObject(decode_metadata(text), text)


@pytest.fixture
def store() -> Store:
    store = Store(builtin.POD)
    store.replace([], "5")
    return store


def test_what_was_made_counts_until_the_view_has_it(store: Store) -> None:
    made = at_version("7")
    unseen = UnseenObjects()
    unseen.add(made)
    store.observe("6")
    assert unseen.missing_in(store) == [made]
    store.put(raw(made))
    assert unseen.missing_in(store) == []
    store.remove(raw(at_version("8")))
    assert unseen.missing_in(store) == []


def test_what_came_and_went_before_the_view_saw_it_is_forgotten(store: Store) -> None:
    unseen = UnseenObjects()
    unseen.add(at_version("7"))
    store.observe("9")
    assert unseen.missing_in(store) == []


def test_versions_without_an_order_are_not_remembered(store: Store) -> None:
    unseen = UnseenObjects()
    unseen.add(at_version("opaque"))
    assert unseen.missing_in(store) == []
