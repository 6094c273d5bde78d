"""Rules of the kernel's packet filter (nf_tables), and how one set of them becomes another. Pure.

Written in the kernel's own terms, so that no program `nft` is needed: a rule is a list of
expressions, which load into registers, compare, look up, and at last say what becomes of the packet
(linux/netfilter/nf_tables.h).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from kubewright.local.network.netlink import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    Message,
    attribute,
    long_number,
    nested,
    number,
    text,
)

Expression: TypeAlias = bytes
Rule: TypeAlias = tuple[Expression, ...]

NEW_TABLE, DELETE_TABLE, NEW_CHAIN, DELETE_CHAIN = 0, 2, 3, 5
NEW_RULE, DELETE_RULE, NEW_SET, DELETE_SET = 6, 8, 9, 11
NEW_ELEMENT, DELETE_ELEMENT = 12, 14
VERDICT_REGISTER, FIRST_WORD = 0, 8
"""The register of verdicts, and the first of those of four bytes each."""
DROP, ACCEPT, JUMP, GOTO, RETURN = 0, 1, -3, -4, -5
SET_MAP, SET_TIMEOUT, SET_EVAL = 0x8, 0x10, 0x20
DATA_VERDICT = 0xFFFFFF00
LIST_ELEMENT = 1
META_MARK, META_PROTOCOL, META_INPUT = 3, 16, 6
STATE_ESTABLISHED, STATE_RELATED = 2, 4
PREROUTING, INPUT, FORWARD, OUTPUT, POSTROUTING = range(5)
TCP, UDP, SCTP = socket.IPPROTO_TCP, socket.IPPROTO_UDP, 132
PROTOCOLS = {"TCP": TCP, "UDP": UDP, "SCTP": SCTP}


# --- expressions ---


def expression(name: str, *attributes: bytes) -> Expression:
    """Build an expression of a kind."""
    return nested(LIST_ELEMENT, text(1, name), nested(2, *attributes))


def value(type: int, data: bytes) -> bytes:
    """Build an attribute that holds a value to compare with, or to load."""
    return nested(type, attribute(1, data))


def verdict(type: int, code: int, chain: str = "") -> bytes:
    """Build an attribute that holds a verdict."""
    return nested(type, nested(2, number(1, code), *([text(2, chain)] if chain else [])))


def load_source(word: int = 0) -> Expression:
    """Load the packet's source address."""
    return _load(1, 12, 4, word)


def load_target(word: int = 0) -> Expression:
    """Load the packet's target address."""
    return _load(1, 16, 4, word)


def load_port(word: int = 0) -> Expression:
    """Load the packet's target port."""
    return _load(2, 2, 2, word)


def load_protocol(word: int = 0) -> Expression:
    """Load the packet's protocol, TCP or another."""
    return expression("meta", number(1, FIRST_WORD + word), number(2, META_PROTOCOL))


def _load(base: int, offset: int, size: int, word: int) -> Expression:
    register = number(1, FIRST_WORD + word)
    return expression("payload", register, number(2, base), number(3, offset), number(4, size))


def equals(data: bytes, word: int = 0, *, negated: bool = False) -> Expression:
    """Go on only with packets for which the loaded value is `data` (or is not)."""
    return expression("cmp", number(1, FIRST_WORD + word), number(2, int(negated)), value(3, data))


def between(low: bytes, high: bytes, *, negated: bool = False) -> Expression:
    """Go on only where the loaded value is within a range, both ends included (or is not)."""
    ends = value(3, low), value(4, high)
    return expression("range", number(1, FIRST_WORD), number(2, int(negated)), *ends)


def mask(data: bytes) -> Expression:
    """Keep only some bits of the loaded value."""
    register = number(1, FIRST_WORD), number(2, FIRST_WORD)
    zero = bytes(len(data))
    return expression("bitwise", *register, number(3, len(data)), value(4, data), value(5, zero))


def in_set(name: str, *, negated: bool = False) -> Expression:
    """Go on only where the loaded value is in a set (or is not)."""
    return expression("lookup", text(1, name), number(2, FIRST_WORD), number(5, int(negated)))


def follow_map(name: str) -> Expression:
    """Do what a map says for the loaded value; go on where it says nothing."""
    registers = number(2, FIRST_WORD), number(3, VERDICT_REGISTER)
    return expression("lookup", text(1, name), *registers)


def one_in(count: int) -> tuple[Expression, ...]:
    """Go on for one packet in so many, by chance."""
    draw = expression("numgen", number(1, FIRST_WORD), number(2, count), number(3, 1))
    return draw, equals(bytes(4))


def conclude(code: int, chain: str = "") -> Expression:
    """Say what becomes of the packet."""
    return expression("immediate", number(1, VERDICT_REGISTER), verdict(2, code, chain))


def set_mark(mark: int) -> tuple[Expression, ...]:
    """Mark the packet, for rules that it meets later."""
    load = expression("immediate", number(1, FIRST_WORD), value(2, struct.pack("=I", mark)))
    return load, expression("meta", number(2, META_MARK), number(3, FIRST_WORD))


def has_mark(mark: int) -> tuple[Expression, ...]:
    """Go on only with packets that have a mark."""
    data = struct.pack("=I", mark)
    load = expression("meta", number(1, FIRST_WORD), number(2, META_MARK))
    return load, mask(data), equals(data)


def comes_from(interface: str) -> tuple[Expression, ...]:
    """Go on only with packets that came in by an interface."""
    load = expression("meta", number(1, FIRST_WORD), number(2, META_INPUT))
    return load, equals(interface.encode() + b"\0")


def is_known_connection() -> tuple[Expression, ...]:
    """Go on only with packets of connections that were let through before."""
    load = expression("ct", number(1, FIRST_WORD), number(2, 0))
    states = struct.pack("=I", STATE_ESTABLISHED | STATE_RELATED)
    return load, mask(states), equals(bytes(4), negated=True)


def translate_to(address: bytes, port: int) -> tuple[Expression, ...]:
    """Lead the connection to another address and port, and its answers back."""
    return (
        expression("immediate", number(1, FIRST_WORD), value(2, address)),
        expression("immediate", number(1, FIRST_WORD + 1), value(2, struct.pack("!H", port))),
        expression(
            "nat", number(1, 1), number(2, 2), number(3, FIRST_WORD), number(5, FIRST_WORD + 1)
        ),
    )


def seem_to_be(address: bytes) -> tuple[Expression, ...]:
    """Let the connection seem to come from another address, and lead its answers back."""
    load = expression("immediate", number(1, FIRST_WORD), value(2, address))
    return load, expression("nat", number(1, 0), number(2, 2), number(3, FIRST_WORD))


def refuse() -> Expression:
    """Answer that nobody listens there (ICMP port unreachable)."""
    return expression("reject", number(1, 0), attribute(2, bytes([3])))


def reset() -> Expression:
    """Answer that nobody listens there, to TCP.

    An ICMP message would come while the client's `connect` still holds its socket, and then counts
    only when the client tries again, a second later.
    """
    return expression("reject", number(1, 1), attribute(2, bytes([0])))


def remember_source(name: str, seconds: int) -> tuple[Expression, ...]:
    """Put the packet's source address into a set, for so long."""
    update = expression(
        "dynset",
        text(1, name),
        number(3, 1),
        number(4, FIRST_WORD),
        long_number(6, seconds * 1000),
    )
    return load_source(), update


# --- rulesets ---


class Verdict(msgspec.Struct, frozen=True):
    """What a map says for a key."""

    code: int
    chain: str = ""


class Hook(msgspec.Struct, frozen=True):
    """Where packets meet a chain by themselves."""

    type: str
    number: int
    priority: int


class Chain(msgspec.Struct, frozen=True):
    """Rules in their order; packets come by a hook, or from other chains."""

    rules: tuple[Rule, ...] = ()
    hook: Hook | None = None


class Set(msgspec.Struct, frozen=True):
    """Keys, or keys with verdicts. One that packets fill has a time after which keys go."""

    key_size: int
    keys: frozenset[bytes] = frozenset()
    verdicts: Mapping[bytes, Verdict] | None = None
    timeout: int = 0

    @property
    def shape(self) -> tuple[int, bool, int]:
        """What cannot be changed of a set."""
        return self.key_size, self.verdicts is not None, self.timeout


class Ruleset(msgspec.Struct, frozen=True):
    """All chains and sets of one table, by name."""

    chains: Mapping[str, Chain] = {}
    sets: Mapping[str, Set] = {}


def plan_table(name: str) -> list[Message]:
    """Plan an empty table, whatever was in one of that name."""
    return [
        Message.of(NEW_TABLE, text(1, name), flags=NLM_F_CREATE),
        Message.of(DELETE_TABLE, text(1, name)),
        Message.of(NEW_TABLE, text(1, name), flags=NLM_F_CREATE),
    ]


def plan_changes(table: str, old: Ruleset, new: Ruleset) -> list[Message]:
    """Plan how one set of rules becomes another, in an order in which every step is allowed.

    Sets that packets fill stay as they are: whom they remember is not forgotten.
    """
    messages: list[Message] = []
    messages += _make_sets(table, old, new)
    messages += _make_chains(table, old, new)
    for name, chain in new.chains.items():
        known = old.chains.get(name)
        if known is None or known.rules != chain.rules:
            messages += _write_rules(table, name, chain, is_new=known is None)
    for name in {**new.sets, **old.sets}:
        # Also of a set that goes: a chain cannot be removed while a map leads to it.
        messages += _change_keys(table, name, old.sets.get(name), new.sets.get(name))
    messages += _drop(table, old, new)
    return messages


def _make_sets(table: str, old: Ruleset, new: Ruleset) -> Iterator[Message]:
    for index, (name, wanted) in enumerate(new.sets.items(), start=1):
        known = old.sets.get(name)
        if known is not None:
            if known.shape != wanted.shape:
                raise ValueError(f"set {name} cannot become another kind of set")
            continue
        flags = SET_MAP if wanted.verdicts is not None else 0
        flags |= SET_TIMEOUT | SET_EVAL if wanted.timeout else 0
        parts = [text(1, table), text(2, name), number(3, flags)]
        # What type a key has only matters to programs that print it.
        parts += [number(4, 0), number(5, wanted.key_size)]
        if wanted.verdicts is not None:
            parts += [number(6, DATA_VERDICT), number(7, 0)]
        if wanted.timeout:
            parts += [long_number(11, wanted.timeout * 1000)]
        yield Message.of(NEW_SET, *parts, number(10, index), flags=NLM_F_CREATE)


def _make_chains(table: str, old: Ruleset, new: Ruleset) -> Iterator[Message]:
    for name, chain in new.chains.items():
        if name in old.chains:
            continue
        parts = [text(1, table), text(3, name)]
        if chain.hook is not None:
            hook = chain.hook
            parts.append(nested(4, number(1, hook.number), number(2, hook.priority)))
            parts += [number(5, ACCEPT), text(7, hook.type)]
        yield Message.of(NEW_CHAIN, *parts, flags=NLM_F_CREATE)


def _write_rules(table: str, name: str, chain: Chain, *, is_new: bool) -> Iterator[Message]:
    where = text(1, table), text(2, name)
    if not is_new:
        yield Message.of(DELETE_RULE, *where)
    for rule in chain.rules:
        yield Message.of(NEW_RULE, *where, nested(4, *rule), flags=NLM_F_CREATE | NLM_F_APPEND)


def _change_keys(table: str, name: str, known: Set | None, wanted: Set | None) -> Iterator[Message]:
    have, want = _elements(known), _elements(wanted)
    gone = [key for key in have if have[key] != want.get(key, b"gone")]
    added = [key for key in want if want[key] != have.get(key, b"none")]
    for type, keys, elements in ((DELETE_ELEMENT, gone, have), (NEW_ELEMENT, added, want)):
        for key in keys:
            element = nested(LIST_ELEMENT, value(1, key), elements[key])
            parts = text(1, table), text(2, name), nested(3, element)
            yield Message.of(type, *parts, flags=NLM_F_CREATE if type == NEW_ELEMENT else 0)


def _elements(known: Set | None) -> dict[bytes, bytes]:
    """Return the keys, each with the attribute of what it stands for."""
    if known is None:
        return {}
    if known.verdicts is None:
        return dict.fromkeys(known.keys, b"")
    return {key: verdict(2, found.code, found.chain) for key, found in known.verdicts.items()}


def _drop(table: str, old: Ruleset, new: Ruleset) -> Iterator[Message]:
    chains = [name for name in old.chains if name not in new.chains]
    for name in chains:
        yield Message.of(DELETE_RULE, text(1, table), text(2, name))
    for name in chains:
        yield Message.of(DELETE_CHAIN, text(1, table), text(3, name))
    for name in old.sets:
        if name not in new.sets:
            yield Message.of(DELETE_SET, text(1, table), text(2, name))


def merge(rulesets: Iterable[Ruleset]) -> Ruleset:
    """Put rulesets together that have no name in common."""
    chains: dict[str, Chain] = {}
    sets: dict[str, Set] = {}
    for ruleset in rulesets:
        chains.update(ruleset.chains)
        sets.update(ruleset.sets)
    return Ruleset(chains, sets)
