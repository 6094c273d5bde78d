"""Rules of the coordination.k8s.io group."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import POSITIVE, check_numbers
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, column, format_age
from kubewright.local.apiserver.field_error import invalid


def _validate(lease: Object) -> list[Cause]:
    spec = lease.get("spec") or {}
    causes: list[Cause] = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, POSITIVE))
    causes += check_numbers(spec, ("leaseTransitions",), "spec")
    return causes


def _drop_coordination(lease: Object) -> None:
    """Drop what only coordinated leader election uses, whose feature gate is off."""
    spec = lease.get("spec") or {}
    spec.pop("strategy", None)
    spec.pop("preferredHolder", None)


def _drop_coordination_on_update(lease: Object, old: Object) -> None:
    if not (old.get("spec") or {}).keys() & {"strategy", "preferredHolder"}:
        _drop_coordination(lease)


RULES: Mapping[str, Rules] = {
    "Lease": Rules(
        allow_create_on_update=True,
        allow_unconditional_update=False,
        validate=_validate,
        prepare_for_create=_drop_coordination,
        prepare_for_update=_drop_coordination_on_update,
        table=Table(
            (column("Holder"), AGE),
            lambda obj, now: [
                (obj.get("spec") or {}).get("holderIdentity") or "",
                format_age(obj, now),
            ],
        ),
    )
}
