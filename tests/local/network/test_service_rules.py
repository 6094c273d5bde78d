from __future__ import annotations

from collections.abc import Sequence

import pytest

from kubewright.api.resource import NamespacedName
from kubewright.local.network.netlink import Message, build_transaction, read_answers
from kubewright.local.network.ruleset import (
    DELETE_CHAIN,
    DELETE_ELEMENT,
    DELETE_RULE,
    DELETE_SET,
    DROP,
    GOTO,
    NEW_CHAIN,
    NEW_ELEMENT,
    NEW_RULE,
    NEW_SET,
    Chain,
    Ruleset,
    Set,
    conclude,
    plan_changes,
    refuse,
    reset,
)
from kubewright.local.network.service_routes import Backend, Route
from kubewright.local.network.service_rules import build_service_rules

GATEWAY = "10.244.0.1"
FIRST, SECOND = Backend("10.244.0.2", 8080), Backend("10.244.0.3", 8080)
KEY = bytes([10, 96, 1, 1, 6, 0, 0, 0, 0, 80, 0, 0])


def build(
    *backends: Backend, drops: bool = False, affinity: int = 0, node_port: int = 0
) -> Ruleset:
    route = Route(
        service=NamespacedName("default", "web"),
        name="http",
        protocol="TCP",
        addresses=("10.96.1.1",),
        port=80,
        node_port=node_port,
        internal=backends,
        external=backends,
        internal_drops=drops,
        external_drops=drops,
        affinity_seconds=affinity,
    )
    return build_service_rules([route], GATEWAY)


def types(messages: Sequence[Message]) -> list[int]:
    return [message[0] for message in messages]


def test_address_and_port_lead_to_a_choice_of_backends() -> None:
    rules = build(FIRST, SECOND)
    verdicts = rules.sets["service-ports"].verdicts
    assert verdicts is not None
    assert [*verdicts] == [KEY]
    assert verdicts[KEY].code == GOTO
    choice = rules.chains[verdicts[KEY].chain]
    assert len(choice.rules) == 2
    assert len([name for name in rules.chains if name.startswith("to-")]) == 2


def test_service_without_backends_is_refused() -> None:
    rules = build()
    assert not rules.sets["service-ports"].verdicts
    assert rules.sets["service-addresses"].keys == {KEY[:4]}
    # TCP by a reset: with ICMP a client would learn of it only a second later.
    stream, other = rules.chains["unserved"].rules
    assert (stream[-1], other[-1]) == (reset(), refuse())


def test_policy_without_a_backend_here_drops() -> None:
    rules = build(drops=True, node_port=30080)
    for name in ("service-ports", "node-ports"):
        verdicts = rules.sets[name].verdicts
        assert verdicts is not None
        assert [found.code for found in verdicts.values()] == [DROP]


def test_change_of_backends_touches_only_what_differs() -> None:
    """The chain of a backend that stays is not rewritten, and whom it knows is not forgotten."""
    one, two = build(FIRST, affinity=60), build(FIRST, SECOND, affinity=60)
    stays = {name for name in one.chains if name.startswith("to-")}
    assert stays < two.chains.keys()
    planned = plan_changes("t", one, two)
    assert DELETE_SET not in types(planned)
    assert types(planned).count(NEW_SET) == 1
    assert types(planned).count(DELETE_ELEMENT) == types(planned).count(NEW_ELEMENT) == 1


def test_same_rules_need_no_message() -> None:
    assert plan_changes("t", build(FIRST, SECOND), build(FIRST, SECOND)) == []


def test_affinity_does_not_depend_on_the_number_of_backends() -> None:
    one, two = build(FIRST, affinity=60), build(FIRST, SECOND, affinity=60)
    known = {name for name, found in one.sets.items() if found.timeout}
    assert known
    assert known < {name for name, found in two.sets.items() if found.timeout}


def test_what_rules_name_is_made_before_them_and_removed_after_them() -> None:
    old = Ruleset(
        {"a": Chain(((conclude(GOTO, "b"),),)), "b": Chain()}, {"s": Set(4, keys=frozenset([KEY]))}
    )
    made = types(plan_changes("t", Ruleset(), old))
    assert made == [NEW_SET, NEW_CHAIN, NEW_CHAIN, NEW_RULE, NEW_ELEMENT]
    removed = types(plan_changes("t", old, Ruleset()))
    assert removed[0] == DELETE_ELEMENT
    assert removed[1:] == [DELETE_RULE, DELETE_RULE, DELETE_CHAIN, DELETE_CHAIN, DELETE_SET]


def test_set_of_another_kind_is_not_changed_in_place() -> None:
    old, new = Ruleset(sets={"s": Set(4)}), Ruleset(sets={"s": Set(8)})
    with pytest.raises(ValueError, match="another kind"):
        plan_changes("t", old, new)


def test_last_message_of_a_transaction_is_answered() -> None:
    messages = plan_changes("t", Ruleset(), build(FIRST))
    data = build_transaction(messages, first=5)
    numbers, offset, asked = [], 0, []
    while offset < len(data):
        size = int.from_bytes(data[offset : offset + 4], "little")
        number = int.from_bytes(data[offset + 8 : offset + 12], "little")
        numbers.append(number)
        if data[offset + 6] & 4:
            asked.append(number)
        offset += (size + 3) & ~3
    assert numbers == [*range(5, 5 + len(messages) + 2)]
    assert asked == [5 + len(messages)]


def test_reads_what_the_kernel_refused() -> None:
    answer = bytes.fromhex("14000000 0200 0000 07000000 00000000 feffffff".replace(" ", ""))
    assert list(read_answers(answer + answer)) == [(7, 2), (7, 2)]
