"""The rules of one built-in kind as data: what its strategy does beyond what all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.kind import Column
from kubewright.local.apiserver.objectmeta import NameRule, dns_subdomain

Change = Callable[[Object], None]
ChangeFrom = Callable[[Object, Object], None]
Check = Callable[[Object], list[Cause]]
CheckFrom = Callable[[Object, Object], list[Cause]]
Cells = Callable[[Object, datetime], list[Any]]
Path = tuple[str, ...]


def change_nothing(obj: Object) -> None:
    """Leave the object as it is."""


def keep_nothing(obj: Object, old: Object) -> None:
    """Take the new object as it is."""


def find_no_fault(obj: Object) -> list[Cause]:
    """Accept any object."""
    return []


def find_no_change(obj: Object, old: Object) -> list[Cause]:
    """Accept any change."""
    return []


def warn_of_nothing(obj: Object, old: Object | None) -> list[str]:
    """Warn of nothing."""
    return []


class Table(msgspec.Struct, frozen=True):
    """The columns of a kind after its name, and the cells of an object for them.

    Where `names_first` is false, the name stands among the columns.
    """

    columns: tuple[Column, ...]
    cells: Cells
    names_first: bool = True


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind does in its own way.

    `default` runs after the defaults of the types. `validate_update` is asked beside `validate`: it
    holds only what an update adds. `status_resets` are the paths that a write of `/status` may not
    change. `takes_status` lets a creation set the status.
    """

    has_generation: bool = False
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    takes_status: bool = False
    name_rule: NameRule = dns_subdomain
    default: Change = change_nothing
    prepare_for_create: Change = change_nothing
    prepare_for_update: ChangeFrom = keep_nothing
    prepare_for_status_update: ChangeFrom = keep_nothing
    validate: Check = find_no_fault
    validate_update: CheckFrom = find_no_change
    validate_status_update: CheckFrom = find_no_change
    warnings: Callable[[Object, Object | None], list[str]] = warn_of_nothing
    # Field selector label → dotted path, or a function of the object.
    fields: Mapping[str, Callable[[Object], str]] = {}
    table: Table | None = None
    status_resets: tuple[Path, ...] = (("spec",),)


def text_at(*path: str) -> Callable[[Object], str]:
    """Return a function that reads a scalar of an object as a field selector compares it."""

    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = (value or {}).get(step)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
