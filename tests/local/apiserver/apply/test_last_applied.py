from __future__ import annotations

import json

import pytest

from kubewright.api.errors import Conflict
from kubewright.api.resource import Object

from .widget import Store, widget

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.fixture
def store() -> Store:
    store = Store()
    obj = widget(color="red", size=1)
    obj["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(widget(color="red", size=1))}
    store.update("kubectl-client-side-apply", obj)
    return store


def annotation(obj: Object) -> str:
    text: str = obj["metadata"]["annotations"][LAST_APPLIED]
    return text


def test_kubectl_takes_over_what_it_applied_from_the_client(store: Store) -> None:
    result = store.apply("kubectl", widget(color="blue"))

    assert result["spec"] == {"color": "blue", "size": 1}
    assert annotation(result) == (
        '{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w"},'
        '"spec":{"color":"blue"}}\n'
    )


def test_other_managers_do_not(store: Store) -> None:
    with pytest.raises(Conflict, match="kubectl-client-side-apply"):
        store.apply("other", widget(color="blue"))


def test_fields_that_someone_changed_since_stay_in_conflict(store: Store) -> None:
    assert store.obj is not None
    store.update("user", {**store.obj, "spec": {"color": "green", "size": 1}})
    with pytest.raises(Conflict) as refused:
        store.apply("kubectl", widget(color="blue", size=2))
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "user" using demo.io/v1: .spec.color'
    )
