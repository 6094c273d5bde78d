from __future__ import annotations

from typing import Any

import msgspec

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.cache.entry import Entry
from kubewright.client.objects import decode_raw_object
from kubewright.runtime.settled import BELIEVED_SECONDS, build_settled_state


def build(name: str, version: str, **rest: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **rest}


def entry(obj: Object) -> Entry:
    return Entry(builtin.CONFIG_MAP, decode_raw_object(msgspec.json.encode(obj)))


def test_the_state_that_a_reconcile_left_is_known() -> None:
    owner, child = build("owner", "1"), build("child", "2")
    written = build("owner", "3", status={"ready": 1})
    state = build_settled_state(owner, written, [child], now=0.0)
    assert state is not None
    assert state.is_state_of(entry(written), [entry(child)], now=1.0)
    assert not state.is_state_of(entry(owner), [entry(child)], now=1.0)


def test_any_other_state_of_a_child_is_not() -> None:
    owner, child = build("owner", "1"), build("child", "2")
    state = build_settled_state(owner, None, [child], now=0.0)
    assert state is not None
    for children in ([], [build("child", "4")], [child, build("other", "2")]):
        assert not state.is_state_of(entry(owner), map(entry, children), now=1.0)
    again = build("child", "2")
    again["metadata"]["uid"] = "another"
    assert not state.is_state_of(entry(owner), [entry(again)], now=1.0)


def test_a_change_between_reading_and_writing_is_not_slept_through() -> None:
    owner = build("owner", "1", data={"a": "1"})
    changed = build("owner", "3", data={"a": "2"}, status={"ready": 1})
    assert build_settled_state(owner, changed, [], now=0.0) is None
    labelled = build("owner", "3", data={"a": "1"})
    labelled["metadata"]["labels"] = {"a": "b"}
    assert build_settled_state(owner, labelled, [], now=0.0) is None


def test_it_is_believed_for_a_while_only() -> None:
    owner = build("owner", "1")
    state = build_settled_state(owner, None, [], now=5.0)
    assert state is not None
    assert not state.is_state_of(entry(owner), [], now=5.0 + BELIEVED_SECONDS)
