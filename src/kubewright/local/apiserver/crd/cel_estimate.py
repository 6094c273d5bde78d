"""Ranges of sizes and costs, and what is known of the parts of a call."""

from __future__ import annotations

import math

import msgspec

from kubewright.local.apiserver.crd.cel_syntax import Node
from kubewright.local.apiserver.crd.cel_types import CelType

LARGEST = (1 << 64) - 1
TRAVERSAL = 0.1
"""The cost of a character or an element that is read."""

Path = tuple[str, ...]


class Range(msgspec.Struct, frozen=True):
    """A size or a cost: at least `low`, at most `high`."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(min(LARGEST, self.low + other.low), min(LARGEST, self.high + other.high))

    def __mul__(self, other: Range) -> Range:
        return Range(min(LARGEST, self.low * other.low), min(LARGEST, self.high * other.high))

    def __or__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def scaled(self, factor: float) -> Range:
        """Return the range times a factor, rounded up."""
        return Range(_scale(self.low, factor), _scale(self.high, factor))


NOTHING, ONE, ANY = Range(0, 0), Range(1, 1), Range(0, LARGEST)


class Entries(msgspec.Struct, frozen=True):
    """How large the keys and values of a list or a map can be."""

    is_list: bool
    key: Range
    value: Range

    def __or__(self, other: Entries) -> Entries:
        return Entries(self.is_list, self.key | other.key, self.value | other.value)


class Sized(msgspec.Struct, frozen=True):
    """What the cost of a call depends on in an operand."""

    node: Node
    type: CelType
    path: Path
    size: Range | None


class CallCost(msgspec.Struct, frozen=True):
    """The cost of a call beside its arguments, and the size of what it returns, where known."""

    cost: Range
    size: Range | None = None


def _scale(value: int, factor: float) -> int:
    scaled = math.ceil(float(value) * factor)
    return min(LARGEST, scaled)
