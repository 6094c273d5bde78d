"""What calls cost by what they do: functions of CEL, its extensions and Kubernetes' libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from kubewright.local.apiserver.crd.cel_estimate import (
    ANY,
    LARGEST,
    ONE,
    TRAVERSAL,
    CallCost,
    Path,
    Range,
    Sized,
)
from kubewright.local.apiserver.crd.cel_syntax import Literal

_REGEX = 0.25
_LIST = Range(11, 11)
"""A call that makes a list: one for the call, ten for the list."""

_ADDRESS = Range(4, 16)
_LONGEST_NAME_PATTERN = 128
_UNIT_TYPES = frozenset({"net.IP", "net.CIDR"})
_COMPARING = ("equals", "not_equals")


class DeclaredSizes(Protocol):
    """Knows the sizes that a schema allows."""

    def declared_size(self, path: Path) -> Range | None:
        """Return the size at a path; None where nothing is declared there."""
        ...


def estimate_call(
    sizes: DeclaredSizes, function: str, overload: str, target: Sized | None, args: list[Sized]
) -> CallCost:
    """Estimate a call without its arguments; one whose effort does not grow costs one."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload](target, args)
    if function in _LIST_SCANS and target is not None:
        return _scan(sizes, target)
    if function == "join" and target is not None:
        return _join(sizes, target, args)
    estimate = _BY_FUNCTION.get(function)
    if estimate is not None and (target is not None or args):
        return estimate(target, args)
    if overload.partition("_")[0] in ("less", "greater") and overload.endswith(("string", "bytes")):
        return _compare(args)
    return _compare(args) if overload in _COMPARING else CallCost(ONE)


def _known(sized: Sized | None) -> Range:
    return ANY if sized is None or sized.size is None else sized.size


def _compare(args: list[Sized]) -> CallCost:
    left, right = args
    if left.type.name == right.type.name and left.type.name in _UNIT_TYPES:
        return CallCost(ONE)
    smallest = min(_known(left).high, _known(right).high)
    return CallCost(Range(1 if smallest > 0 else 0, smallest).scaled(TRAVERSAL))


def _concatenate(_: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(args[0]) + _known(args[1])
    return CallCost(size.scaled(TRAVERSAL), size)


def _concatenate_lists(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(ONE, _known(args[0]) + _known(args[1]))


def _contains(target: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(_known(target).scaled(TRAVERSAL) * _known(args[0]).scaled(TRAVERSAL))


def _matches(target: Sized | None, args: list[Sized]) -> CallCost:
    text, pattern = (args[0], args[1]) if target is None else (target, args[0])
    return CallCost((_known(text) + ONE).scaled(TRAVERSAL) * _known(pattern).scaled(_REGEX))


def _find(target: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(target)
    cost = (size + ONE).scaled(TRAVERSAL) * _known(args[0]).scaled(_REGEX)
    return CallCost(cost, Range(0, size.high))


def _affix(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(_known(args[0]).scaled(TRAVERSAL))


def _in_list(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(_known(args[1]))


def _format(target: Sized | None, _: list[Sized]) -> CallCost:
    return CallCost(_known(target).scaled(TRAVERSAL))


def _to_bytes(_: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(args[0])
    # The original multiplies without a stop, as unsigned 64-bit integers do.
    return CallCost(size.scaled(TRAVERSAL), Range(size.low, size.high * 4 & LARGEST))


def _from_bytes(_: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(args[0])
    return CallCost(size.scaled(TRAVERSAL), Range(size.low // 4, size.high))


def _quote(_: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(args[0])
    return CallCost(size.scaled(TRAVERSAL), Range(size.low + 2, size.high * 2 + 2 & LARGEST))


def _sets(factor: float) -> Callable[[Sized | None, list[Sized]], CallCost]:
    def estimate(_: Sized | None, args: list[Sized]) -> CallCost:
        return CallCost((_known(args[0]) * _known(args[1])).scaled(factor) + ONE)

    return estimate


def _allocate(size: Range, factor: float = 1.0) -> CallCost:
    return CallCost(size.scaled(factor) + _LIST, size)


def _slice(target: Sized | None, args: list[Sized]) -> CallCost:
    start, end = _integer(args[0], 0), _integer(args[1], _known(target).high)
    return _allocate(Range(end - start & LARGEST, end - start & LARGEST))


def _flatten(target: Sized | None, args: list[Sized]) -> CallCost:
    depth = _integer(args[0], LARGEST) if args else 1
    return _allocate(_known(target), float(depth))


def _range(_: Sized | None, args: list[Sized]) -> CallCost:
    count = _integer(args[0], LARGEST)
    return _allocate(Range(count, count))


def _reverse(target: Sized | None, _: list[Sized]) -> CallCost:
    return _allocate(_known(target))


def _distinct(target: Sized | None, _: list[Sized]) -> CallCost:
    return _allocate(_known(target) * _known(target), 2.0)


def _sort(target: Sized | None, args: list[Sized]) -> CallCost:
    keys = args[0] if args else target
    is_text = keys is not None and any(
        each.name in ("string", "bytes") for each in keys.type.parameters
    )
    return _allocate(_known(keys) * _known(keys), 2.0 + (TRAVERSAL if is_text else 0))


def _integer(sized: Sized, otherwise: int) -> int:
    node = sized.node
    is_natural = isinstance(node, Literal) and node.type == "int" and node.value >= 0
    return node.value if isinstance(node, Literal) and is_natural else otherwise


def _scan(sizes: DeclaredSizes, target: Sized) -> CallCost:
    """Look at each element of a list once, or at each character of a text."""
    if not target.type.parameters:
        return CallCost(_known(target).scaled(1 if target.type.name == "dyn" else TRAVERSAL))
    each = ONE
    if target.type.parameters[0].name in ("string", "bytes"):
        each += _element_size(sizes, target).scaled(TRAVERSAL)
    return CallCost(_known(target) * each)


def _element_size(sizes: DeclaredSizes, target: Sized) -> Range:
    declared = sizes.declared_size((*target.path, "@items")) if target.path else None
    return ANY if declared is None else declared


def _join(sizes: DeclaredSizes, target: Sized, args: list[Sized]) -> CallCost:
    count = _known(target)
    size = count * _element_size(sizes, target)
    if args:
        between = Range(max(0, count.low - 1), max(0, count.high - 1))
        size += _known(args[0]) * between
    return CallCost(size.scaled(TRAVERSAL), size)


def _parse(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(_known(args[0]).scaled(TRAVERSAL)) if args else CallCost(ONE)


def _parse_twice(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost(_known(args[0]).scaled(2 * TRAVERSAL))


def _parse_sized(_: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(args[0])
    return CallCost(size.scaled(TRAVERSAL), size)


def _transform(target: Sized | None, _: list[Sized]) -> CallCost:
    size = _known(target)
    return CallCost(size.scaled(TRAVERSAL), size)


def _split(target: Sized | None, args: list[Sized]) -> CallCost:
    size = _known(target)
    most = _integer(args[1], size.high) if len(args) > 1 else size.high
    return CallCost(size.scaled(2 * TRAVERSAL), Range(0, most))


def _replace(target: Sized | None, args: list[Sized]) -> CallCost:
    size, old, new = _known(target), _known(args[0]), _known(args[1])
    most, kept_most = _replacements(size.high, old.low, grows=new.high > old.low)
    fewest, kept_fewest = _replacements(size.low, old.high, grows=new.low < old.high)
    result = Range(fewest, most) * new + Range(kept_fewest, kept_most)
    return CallCost(size.scaled(2 * TRAVERSAL), result)


def _replacements(size: int, old: int, *, grows: bool) -> tuple[int, int]:
    """Return how many replacements change the length, and what is kept beside them."""
    if old == 0:
        return min(LARGEST, size + 1), size
    if not grows:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _contains_ip(_: Sized | None, args: list[Sized]) -> CallCost:
    return CallCost((_ADDRESS + _ADDRESS).scaled(TRAVERSAL) + _text_cost(args[0]))


def _contains_cidr(_: Sized | None, args: list[Sized]) -> CallCost:
    cost = (_ADDRESS + _ADDRESS).scaled(TRAVERSAL) + _ADDRESS.scaled(TRAVERSAL) + ONE
    return CallCost(cost + _text_cost(args[0]))


def _text_cost(sized: Sized) -> Range:
    return _known(sized).scaled(TRAVERSAL) if sized.type.name == "string" else Range(0, 0)


def _validate(_: Sized | None, args: list[Sized]) -> CallCost:
    cost = _known(args[0]).scaled(TRAVERSAL).scaled(_LONGEST_NAME_PATTERN * _REGEX)
    return CallCost(cost)


_Estimate = Callable[[Sized | None, list[Sized]], CallCost]
_LIST_SCANS = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"})
_BY_OVERLOAD: dict[str, _Estimate] = {
    "add_string": _concatenate,
    "add_bytes": _concatenate,
    "add_list": _concatenate_lists,
    "contains_string": _contains,
    "matches_string": _matches,
    "matches": _matches,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _from_bytes,
    "strings_quote": _quote,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "cidr_ip": lambda target, args: CallCost(ONE),
}
_BY_FUNCTION: dict[str, _Estimate] = {
    "find": _find,
    "findAll": _find,
    "sort": _sort,
    "@sortByAssociatedKeys": _sort,
    "url": _parse_sized,
    "lowerAscii": _transform,
    "upperAscii": _transform,
    "substring": _transform,
    "trim": _transform,
    "replace": _replace,
    "split": _split,
    "ip.isCanonical": _parse_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _parse
    ),
}
