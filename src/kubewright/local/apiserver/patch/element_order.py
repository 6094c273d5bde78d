"""The order of a merged list: the patch's items in the patch's order, the others kept in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Name: TypeAlias = Callable[[Any], Any]


def sort_by_order(items: list[Any], order: Sequence[Any], name: Name) -> list[Any]:
    """Return items in the order of their names; those without a place come first."""
    return sorted(items, key=lambda item: _place(order, name(item)))


def merge_sorted(
    server: list[Any], patched: list[Any], server_order: Sequence[Any], name: Name
) -> list[Any]:
    """Return both lists as one.

    An item that only the server has comes before the next patched one only where the server had
    both, in this order.
    """
    merged: list[Any] = []
    left = right = 0
    while left < len(server) and right < len(patched):
        ours = _place(server_order, name(server[left]))
        theirs = _place(server_order, name(patched[right]))
        if 0 <= ours < theirs:
            merged.append(server[left])
            left += 1
        else:
            merged.append(patched[right])
            right += 1
    return [*merged, *server[left:], *patched[right:]]


def _place(order: Sequence[Any], name: Any) -> int:
    try:
        return order.index(name)
    except ValueError:
        return -1
