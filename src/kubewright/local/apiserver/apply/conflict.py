"""Conflicts of an apply: fields that others own and that would change."""

from __future__ import annotations

import json
from itertools import groupby

import msgspec

from kubewright.api.errors import Cause, Conflict, StatusDetails
from kubewright.local.apiserver.apply.field_set import FieldSet, Path, display_path
from kubewright.local.apiserver.apply.managers import Manager


class FieldConflict(msgspec.Struct, frozen=True):
    """A field that a manager owns and another one wants to set to something else."""

    manager: Manager
    path: Path


class ApplyConflicts(Exception):
    """Raised inside an apply that may not take fields from others."""

    def __init__(self, conflicts: list[FieldConflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts

    def fields(self) -> FieldSet:
        """Return the fields in question."""
        return FieldSet.of(conflict.path for conflict in self.conflicts)

    def without(self, fields: FieldSet) -> ApplyConflicts:
        """Return the conflicts about other fields than these."""
        return ApplyConflicts([c for c in self.conflicts if not fields.has(c.path)])

    def to_error(self) -> Conflict:
        """Return the refusal that a client gets, with one cause for each field."""
        causes = tuple(
            Cause(
                "FieldManagerConflict",
                f"conflict with {_display(conflict.manager)}",
                display_path(conflict.path),
            )
            for conflict in self.conflicts
        )
        return Conflict(_message(self.conflicts), StatusDetails(causes=causes))


def find_conflicts(owned: dict[Manager, FieldSet]) -> list[FieldConflict]:
    """Return the conflicts about fields by their managers, in a stable order."""
    managers = sorted(owned, key=lambda manager: manager.identity)
    return [FieldConflict(manager, path) for manager in managers for path in owned[manager]]


def _message(conflicts: list[FieldConflict]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        return (
            "Apply failed with 1 conflict: "
            f"conflict with {_display(only.manager)}: {display_path(only.path)}"
        )
    lines: list[str] = []
    for manager, group in groupby(conflicts, key=lambda conflict: conflict.manager):
        lines.append(f"conflicts with {_display(manager)}:")
        lines += [f"- {display_path(conflict.path)}" for conflict in group]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _display(manager: Manager) -> str:
    text = json.dumps(manager.name, ensure_ascii=False)
    if manager.subresource:
        text += f" with subresource {json.dumps(manager.subresource)}"
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text
