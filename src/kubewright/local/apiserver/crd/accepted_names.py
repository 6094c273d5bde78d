"""Which names of a definition are free: acceptedNames, NamesAccepted, Established."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.conditions import Condition, is_condition_true, set_condition
from kubewright.api.resource import Object
from kubewright.local.apiserver.crd import api_approval

# The fields of names that a URL or a lookup uses; each is taken or refused on its own.
_RESOURCE_FIELDS = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
)
_KIND_FIELDS = (("kind", "KindConflict"), ("listKind", "ListKindConflict"))
_NOT_ACCEPTED = Condition("Established", "False", "NotAccepted", "not all names are accepted")
_ESTABLISHED = Condition(
    "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
)
_NO_CONFLICTS = Condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")


def plan_names(crd: Object, others: Iterable[Object], now: str) -> Object | None:
    """Return the status that a definition should have, or None where it has it already.

    A name that another definition of the group was accepted with stays refused: what was accepted
    before is kept instead. Once established, a definition stays so. A definition of a group of the
    Kubernetes community also tells whether its API was approved.

    Args:
        crd: the definition.
        others: all definitions, itself included or not; those of other groups do not matter.
        now: the time to write into conditions that change.
    """
    group, name = crd["spec"]["group"], crd["metadata"]["name"]
    taken = [
        (other.get("status") or {}).get("acceptedNames") or {}
        for other in others
        if other["spec"]["group"] == group and other["metadata"]["name"] != name
    ]
    before = crd.get("status") or {}
    accepted, verdict = _judge(crd["spec"]["names"], before.get("acceptedNames") or {}, taken)
    conditions = before.get("conditions") or ()
    if api_approval.is_protected(group):
        approval = api_approval.read_approval(api_approval.read_annotation(crd))
        conditions = set_condition(conditions, approval.condition, now=now)
    conditions = set_condition(conditions, verdict, now=now)
    if verdict.status == "True":
        conditions = set_condition(conditions, _ESTABLISHED, now=now)
    elif not is_condition_true(crd, "Established"):
        conditions = set_condition(conditions, _NOT_ACCEPTED, now=now)
    status = {**before, "acceptedNames": accepted, "conditions": conditions}
    return None if status == before else status


def _judge(
    wanted: Mapping[str, Any], current: Mapping[str, Any], taken: list[Mapping[str, Any]]
) -> tuple[Object, Condition]:
    """Return the names that are accepted, and the NamesAccepted condition."""
    resources = {name for names in taken for name in _resource_names(names)}
    kinds = {names.get(key) for names in taken for key in ("kind", "listKind")} - {None, ""}
    accepted: Object = {key: value for key, value in current.items() if value}
    verdict = _NO_CONFLICTS
    for fields, used in ((_RESOURCE_FIELDS, resources), (_KIND_FIELDS, kinds)):
        for key, reason in fields:
            values = wanted.get(key) or ""
            conflict = next((v for v in _each(values) if v in used), None)
            if conflict is not None:
                message = f'"{conflict}" is already in use'
                verdict = Condition("NamesAccepted", "False", reason, message)
            elif values:
                accepted[key] = values
            else:
                accepted.pop(key, None)
    if categories := wanted.get("categories"):
        accepted["categories"] = categories
    else:
        accepted.pop("categories", None)
    return {"plural": "", "kind": "", **accepted}, verdict


def _resource_names(names: Mapping[str, Any]) -> Iterable[str]:
    for key, _ in _RESOURCE_FIELDS:
        yield from _each(names.get(key) or ())


def _each(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value or ())
