"""Plans of children: nothing to do, no step; never anything of another owner."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.api import builtin
from kubewright.api.errors import Cause, Forbidden, Invalid, TerminalError
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.runtime.applied_memory import AppliedMemory
from kubewright.runtime.child_kind import ChildKey, ChildKind, build_children, child_key
from kubewright.runtime.desired import (
    Action,
    Step,
    is_immutable_refusal,
    plan_children,
)

MANAGER = "pool-operator"
KINDS = {
    kind.gvk: ChildKind(kind) for kind in (builtin.CONFIG_MAP, builtin.SECRET, builtin.SERVICE)
}
OWNER: Object = {
    "apiVersion": "pools.example.com/v1",
    "kind": "Pool",
    "metadata": {"name": "pool", "namespace": "default", "uid": "owner-1"},
}


def config_map(name: str = "pool", **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def build(*desired: Object) -> list[Object]:
    return [*build_children(OWNER, desired, KINDS, manager=MANAGER).values()]


def by_key(objects: Iterable[Object]) -> dict[ChildKey, Object]:
    return {child_key(obj): obj for obj in objects}


def live_of(applied: Object, manager: str = MANAGER) -> Object:
    """Build what a server holds after an apply of a ConfigMap."""
    live = copy.deepcopy(applied)
    metadata = live["metadata"]
    labels: Object = {f"f:{key}": {} for key in metadata["labels"]}
    fields = {
        "f:metadata": {
            "f:labels": labels,
            "f:ownerReferences": {'k:{"uid":"owner-1"}': {}},
        },
        "f:data": {f"f:{key}": {} for key in live["data"]},
    }
    metadata["uid"] = f"uid-{metadata['name']}"
    metadata["managedFields"] = [
        {"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}
    ]
    return live


def plan(desired: list[Object], live: list[Object], **options: Any) -> list[Step]:
    kinds = options.pop("kinds", KINDS)
    return plan_children(OWNER, by_key(desired), by_key(live), kinds, manager=MANAGER, **options)


def actions(steps: list[Step]) -> list[tuple[Action, str]]:
    return [(step.action, step.key.name) for step in steps]


def test_completes_a_child_and_adds_nothing_else() -> None:
    wanted = config_map(a="1")
    wanted["metadata"]["annotations"] = None
    (child,) = build(wanted)
    assert child == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "pool",
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": MANAGER},
            "ownerReferences": [build_owner_reference(OWNER)],
        },
        "data": {"a": "1"},
    }
    assert "namespace" not in wanted["metadata"]


def test_string_data_becomes_data_as_the_server_stores_it() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    (child,) = build({**secret, "stringData": {"password": "geheim"}, "data": {"x": "eA=="}})
    assert child["data"] == {"x": "eA==", "password": "Z2VoZWlt"}
    assert "stringData" not in child


@pytest.mark.parametrize(
    ("child", "says"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "owns=\\["),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "p-"}}, "no name"),
        (
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "p", "namespace": "other"},
            },
            "cannot cross namespaces",
        ),
    ],
)
def test_refuses_children_that_cannot_be_owned(child: Object, says: str) -> None:
    with pytest.raises(TerminalError, match=says):
        build(child)


def test_refuses_a_child_that_is_desired_twice() -> None:
    with pytest.raises(TerminalError, match="twice"):
        build(config_map(a="1"), config_map(a="2"))


def test_refuses_a_cluster_scoped_child_of_an_owner_in_a_namespace() -> None:
    kinds = {builtin.NAMESPACE.gvk: ChildKind(builtin.NAMESPACE)}
    child = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    with pytest.raises(TerminalError, match="belongs to the cluster"):
        build_children(OWNER, [child], kinds, manager=MANAGER)


def test_creates_what_is_missing() -> None:
    assert actions(plan(build(config_map(a="1")), [])) == [(Action.CREATE, "pool")]


def test_does_nothing_when_nothing_differs() -> None:
    desired = build(config_map(a="1"))
    assert plan(desired, [live_of(desired[0])]) == []


def test_applies_what_differs() -> None:
    live = live_of(build(config_map(a="1"))[0])
    steps = plan(build(config_map(a="2")), [live])
    assert actions(steps) == [(Action.APPLY, "pool")]
    assert str(steps[0]) == "apply ConfigMap default/pool: it differs"


def test_prunes_what_is_no_longer_desired_after_the_rest() -> None:
    old = live_of(build(config_map("old", a="1"))[0])
    steps = plan(build(config_map("new", a="1")), [old])
    assert actions(steps) == [(Action.CREATE, "new"), (Action.DELETE, "old")]


def test_never_prunes_the_child_of_another_owner() -> None:
    other = live_of(build(config_map("other", a="1"))[0])
    other["metadata"]["ownerReferences"][0]["uid"] = "owner-2"
    assert plan([], [other]) == []


def test_never_prunes_what_a_reconcile_made_itself() -> None:
    made = live_of(build(config_map("backup", a="1"))[0], manager=f"{MANAGER}-reconcile")
    assert plan([], [made]) == []


def test_never_takes_the_child_of_another_owner() -> None:
    desired = build(config_map(a="1"))
    other = live_of(desired[0])
    other["metadata"]["ownerReferences"][0] |= {"uid": "owner-2", "name": "else"}
    (step,) = plan(desired, [other])
    assert step.action is Action.REFUSE
    assert step.reason == "it belongs to Pool else"


def test_waits_for_the_end_of_a_namesakes_child() -> None:
    desired = build(config_map(a="1"))
    former = live_of(desired[0])
    former["metadata"]["ownerReferences"][0] |= {"uid": "owner-0"}
    (step,) = plan(desired, [former])
    assert step.action is Action.WAIT
    assert step.reason == "it belongs to an earlier Pool of this name, and goes with it"


def test_takes_a_stranger_only_when_told_to_adopt() -> None:
    desired = build(config_map(a="1"))
    stranger = {**config_map(a="9"), "metadata": {"name": "pool", "namespace": "default"}}
    assert actions(plan(desired, [stranger])) == [(Action.REFUSE, "pool")]
    kinds = {builtin.CONFIG_MAP.gvk: ChildKind(builtin.CONFIG_MAP, adopt=True)}
    assert actions(plan(desired, [stranger], kinds=kinds)) == [(Action.APPLY, "pool")]


def test_waits_for_the_end_of_a_child_that_is_being_deleted() -> None:
    desired = build(config_map(a="1"))
    live = live_of(desired[0])
    live["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
    assert actions(plan(desired, [live])) == [(Action.WAIT, "pool")]
    assert plan([], [live]) == []


def test_memory_spares_a_value_that_the_server_rewrites() -> None:
    desired = build(config_map(a="60m"))
    rewritten = live_of(desired[0])
    rewritten["data"]["a"] = "1h0m0s"
    memory = AppliedMemory()
    assert actions(plan(desired, [rewritten], memory=memory)) == [(Action.APPLY, "pool")]
    memory.remember("owner-1", desired[0], rewritten, MANAGER)
    assert plan(desired, [rewritten], memory=memory) == []


@pytest.mark.parametrize("what", ["live", "desired", "taken"])
def test_memory_ends_with_any_change(what: str) -> None:
    desired = build(config_map(a="60m"))
    live = live_of(desired[0])
    live["data"]["a"] = "1h0m0s"
    memory = AppliedMemory()
    memory.remember("owner-1", desired[0], live, MANAGER)
    if what == "live":
        live["data"]["a"] = "2h0m0s"
    elif what == "desired":
        desired[0]["data"]["a"] = "90m"
    else:
        del live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]
    assert actions(plan(desired, [live], memory=memory)) == [(Action.APPLY, "pool")]


def test_knows_a_refusal_of_an_immutable_field() -> None:
    cause = Cause("FieldValueInvalid", 'Invalid value: "x": field is immutable', "spec.clusterIP")
    assert is_immutable_refusal(Invalid.of("", "Service", "a", [cause]))
    other = Cause("FieldValueRequired", "Required value", "spec.ports")
    assert not is_immutable_refusal(Invalid.of("", "Service", "a", [other]))
    assert not is_immutable_refusal(Forbidden("is immutable"))
