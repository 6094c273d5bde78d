"""What an operator does with the children of one kind, and how it completes what is desired."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kubewright.api.errors import TerminalError
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import GroupVersionKind, NamespacedName, Object, Resource

ChildKey: TypeAlias = tuple[GroupVersionKind, NamespacedName]

MANAGED_BY = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class ChildKind:
    """A kind of children, and the decisions that only its author can take.

    `on_immutable`: when the API refuses to change a field, `report` it and keep the child, or
    `recreate` it: delete and make it anew, losing what it holds.
    `adopt`: take over an object of the desired name that nobody controls and we did not make. Else
    it is reported and left alone: adopted objects are deleted with their owner.
    """

    resource: Resource
    on_immutable: Literal["report", "recreate"] = "report"
    adopt: bool = False


def child_key(obj: Object) -> ChildKey:
    """Return what tells a child from all others."""
    return GroupVersionKind.of(obj), NamespacedName.of(obj)


def build_children(
    owner: Object,
    desired: Iterable[Object],
    kinds: Mapping[GroupVersionKind, ChildKind],
    *,
    manager: str,
    owner_namespaced: bool = True,
) -> list[Object]:
    """Complete desired children: owner reference, namespace and the managed-by label.

    Nothing else is added. Fields that are None are left out, and a Secret's `stringData` becomes
    `data`, as the server stores it.

    Raises:
        TerminalError: a child has no name, is of a kind that was not declared, would cross
            namespaces, or is there twice.
    """
    built: dict[ChildKey, Object] = {}
    for child in desired:
        kind = kinds.get(GroupVersionKind.of(child))
        if kind is None:
            raise TerminalError(_undeclared(child, kinds))
        complete = _build_child(owner, child, kind.resource, manager, owner_namespaced)
        key = child_key(complete)
        if key in built:
            raise TerminalError(f"{kind.resource.kind} {key[1]} is desired twice")
        built[key] = complete
    return list(built.values())


def _build_child(
    owner: Object, child: Object, resource: Resource, manager: str, owner_namespaced: bool
) -> Object:
    complete: Object = _drop_none(child)
    metadata = complete.setdefault("metadata", {})
    name, home = metadata.get("name"), (owner["metadata"].get("namespace") or "")
    if not name:
        raise TerminalError(
            f"a desired {resource.kind} has no name: give it one that follows from its owner"
        )
    if not resource.namespaced and owner_namespaced:
        raise TerminalError(
            f"{resource.kind} {name} belongs to the cluster: an owner in a namespace cannot own it"
        )
    if resource.namespaced:
        namespace = metadata.setdefault("namespace", home)
        if not namespace or (owner_namespaced and namespace != home):
            where = f"namespace {namespace!r}" if namespace else "no namespace"
            raise TerminalError(
                f"{resource.kind} {name} has {where}, its owner {home!r}: "
                "owner references cannot cross namespaces"
            )
    metadata["labels"] = {MANAGED_BY: manager, **(metadata.get("labels") or {})}
    metadata["ownerReferences"] = [build_owner_reference(owner)]
    if resource.kind == "Secret" and not resource.group:
        _encode_string_data(complete)
    return complete


def _drop_none(value: Any) -> Any:
    """Copy a value without the fields that are None: to apply null is not to apply the field."""
    if isinstance(value, Mapping):
        return {key: _drop_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_drop_none(inner) for inner in value]
    return value


def _encode_string_data(secret: Object) -> None:
    texts: Mapping[str, str] = secret.pop("stringData", None) or {}
    if texts:
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _undeclared(child: Object, kinds: Mapping[GroupVersionKind, ChildKind]) -> str:
    gvk = GroupVersionKind.of(child)
    known = ", ".join(sorted(str(gvk.group_kind) for gvk in kinds)) or "nothing"
    return (
        f"desired() yields a {gvk}, but the operator owns {known}: "
        "name its resource in @operator.desired(…, owns=[…])"
    )
