from __future__ import annotations

from datetime import timedelta

from tests.local.controllers.objects import NOW

from kubewright.api import builtin
from kubewright.api.metadata import ObjectMeta
from kubewright.local.controllers.namespace.conditions import build_conditions
from kubewright.local.controllers.namespace.content import Content
from kubewright.local.controllers.namespace.controller import build_finalized, next_look
from kubewright.local.controllers.service_account.namespace_object import NamespaceObject

TIME = "2026-01-01T12:00:00Z"


def messages(content: Content) -> dict[str, tuple[str, str]]:
    conditions = build_conditions([], content, TIME)
    return {c["type"]: (c["status"], c["message"]) for c in conditions}


def test_an_empty_namespace_may_go() -> None:
    content = Content()
    assert content.is_empty
    assert {status for status, _ in messages(content).values()} == {"False"}
    assert len(messages(content)) == 5


def test_says_what_is_left_and_which_finalizers_hold_it() -> None:
    content = Content()
    content.count(builtin.CONFIG_MAP, [ObjectMeta(name="held", finalizers=["example.com/wait"])])
    content.count(builtin.DEPLOYMENT, [ObjectMeta(), ObjectMeta()])
    assert not content.is_empty
    told = messages(content)
    assert told["NamespaceContentRemaining"] == (
        "True",
        (
            "Some resources are remaining: configmaps. has 1 resource instances, "
            "deployments.apps has 2 resource instances"
        ),
    )
    assert told["NamespaceFinalizersRemaining"] == (
        "True",
        (
            "Some content in the namespace has finalizers remaining: "
            "example.com/wait in 1 resource instances"
        ),
    )


def test_a_pod_that_takes_its_time_holds_the_namespace_without_a_condition() -> None:
    content = Content()
    content.count(builtin.POD, [ObjectMeta(deletion_grace_period_seconds=30)])
    assert not content.is_empty
    assert messages(content)["NamespaceContentRemaining"][0] == "False"


def test_what_cannot_be_discovered_or_deleted_holds_the_namespace() -> None:
    stale = Content(stale=("metrics.k8s.io/v1beta1",))
    assert not stale.is_empty
    assert messages(stale)["NamespaceDeletionDiscoveryFailure"][0] == "True"
    failed = Content(failures=["widgets: refused"])
    assert not failed.is_empty
    assert "widgets: refused" in messages(failed)["NamespaceDeletionContentFailure"][1]


def test_takes_off_its_own_finalizer_only() -> None:
    namespace = {"spec": {"finalizers": ["kubernetes", "example.com/mine"]}}
    assert build_finalized(namespace)["spec"]["finalizers"] == ["example.com/mine"]


def test_looks_less_often_at_what_takes_long() -> None:
    namespace = {"metadata": {"deletionTimestamp": "2026-01-01T11:59:56Z"}}
    assert next_look(namespace, NOW) == timedelta(seconds=1)
    assert next_look(namespace, NOW + timedelta(hours=1)) == timedelta(seconds=10)


def test_repairs_a_changed_object_and_lets_a_right_one_be() -> None:
    wanted = NamespaceObject(builtin.CONFIG_MAP, "c", {"a": "1"}, {"data": {"k": "v"}})
    live = wanted.build("ns")
    assert wanted.build_repair(live) is None
    live["metadata"]["annotations"]["own"] = "kept"
    assert wanted.build_repair(live) is None
    live["data"] = {"k": "other", "more": "x"}
    repaired = wanted.build_repair(live)
    assert repaired is not None
    assert repaired["data"] == {"k": "v"}
    assert repaired["metadata"]["annotations"] == {"a": "1", "own": "kept"}
