"""What an operator does with the children of one kind, and how it completes what is desired."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from kubewright.api.errors import ConfigurationError, TerminalError
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import (
    SEGMENT_RULE,
    GroupVersionKind,
    NamespacedName,
    Object,
    Resource,
    is_path_segment,
)
from kubewright.cache.entry import Entry
from kubewright.runtime.child_value import UnfitValue, copy_value, find_fault
from kubewright.runtime.gate import STAGE, Gate

ChildKey: TypeAlias = tuple[GroupVersionKind, NamespacedName]
ChildMap: TypeAlias = Mapping[ChildKey, Object]
"""Objects by what tells them apart, in the order in which they were yielded or found."""

MANAGED_BY = "app.kubernetes.io/managed-by"

OWNER = "kubewright.dev/owner"
"""The annotation that names the owner of a child that outlives it, in place of a reference."""


class ChildKind(msgspec.Struct, frozen=True):
    """A kind of children, and the decisions that only its author can take.

    `on_immutable`: when the API refuses to change a field, `report` it and keep the child, or
    `recreate` it: delete and make it anew, losing what it holds.
    `adopt`: take over an object of the desired name that nobody controls and we did not make. Else
    it is reported and left alone: adopted objects are deleted with their owner.
    `on_removal`: when a child is no longer desired, or its owner is deleted, `delete` it, or `keep`
    it, as the claims of a database. A kept child has no owner reference, so that no way of deleting
    the owner takes it along; an owner of the same name finds it again by an annotation.
    `on_missing`: where the API server does not serve the kind, as before the definition of another
    project's kind is installed, `block`: the operator does not start without it; `wait`: the other
    children are made, and the object is Stalled and says what to install; `skip`: do as if the
    child were not desired. Either goes on by itself when the kind comes, half a minute later at
    most. Of a kind that goes while the operator runs, `block` does as `wait`.

    Raises:
        ConfigurationError: a kind is to be kept and recreated, which loses what is kept; or a
            decision is none of those above.
    """

    resource: Resource
    on_immutable: Literal["report", "recreate"] = "report"
    adopt: bool = False
    on_removal: Literal["delete", "keep"] = "delete"
    on_missing: Literal["block", "wait", "skip"] = "block"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("on_immutable", self.on_immutable, ("report", "recreate")),
            ("on_removal", self.on_removal, ("delete", "keep")),
            ("on_missing", self.on_missing, ("block", "wait", "skip")),
        ):
            if value not in allowed:
                raise ConfigurationError(
                    f"ChildKind({self.resource}): {name}={value!r}: write {' or '.join(allowed)}"
                )
        if self.on_removal == "keep" and self.on_immutable == "recreate":
            raise ConfigurationError(
                f"ChildKind({self.resource}): on_immutable='recreate' deletes what "
                "on_removal='keep' is to keep: choose one"
            )

    @property
    def is_kept(self) -> bool:
        """Tell whether the children of this kind outlive their owner."""
        return self.on_removal == "keep"


def child_key(obj: Object) -> ChildKey:
    """Return what tells a child from all others; it has a type and metadata."""
    metadata = obj["metadata"]
    return (
        GroupVersionKind.parse(obj["apiVersion"], obj["kind"]),
        NamespacedName(metadata.get("namespace") or "", metadata.get("name") or ""),
    )


def owner_name(owner: Object) -> str:
    """Return what the owner annotation says: kind and name; the namespace is the child's."""
    gvk = GroupVersionKind.of(owner)
    return f"{gvk.group_kind}/{owner['metadata']['name']}"


def map_to_kept_owner(kind: Resource) -> Callable[[Entry], Iterable[NamespacedName]]:
    """Build the map from a kept child to the key of its owner, for a watch."""
    prefix = f"{kind.gvk.group_kind}/"

    def owner(entry: Entry) -> Iterable[NamespacedName]:
        said = (entry.meta.annotations or {}).get(OWNER, "")
        if not said.startswith(prefix):
            return ()
        namespace = entry.meta.namespace if kind.namespaced else ""
        return (NamespacedName(namespace, said.removeprefix(prefix)),)

    return owner


def build_children(
    owner: Object,
    desired: Iterable[Object | Gate],
    kinds: Mapping[GroupVersionKind, ChildKind],
    *,
    manager: str,
    owner_namespaced: bool = True,
) -> dict[ChildKey, Object]:
    """Complete desired children: owner reference, namespace and the managed-by label.

    Children after a `Gate` get an annotation with the number of gates before them; kept ones get
    the owner's name in place of a reference. Nothing else is added. Fields that are None are left
    out, and a Secret's `stringData` becomes `data`, as the server stores it.

    Raises:
        TerminalError: a child is no object, has no name or a value that is no JSON, is of a kind
            that was not declared, would cross namespaces, or is there twice.
    """
    built: dict[ChildKey, Object] = {}
    stage = 0
    for child in desired:
        if isinstance(child, Gate):
            stage += 1
            continue
        complete = _copy_child(child)
        kind = kinds.get(GroupVersionKind.of(complete))
        if kind is None:
            raise TerminalError(_undeclared(complete, kinds))
        _complete_child(owner, complete, kind, manager, owner_namespaced)
        if stage:
            _annotate(complete, STAGE, str(stage))
        key = child_key(complete)
        if key in built:
            raise TerminalError(f"{kind.resource.kind} {key[1]} is desired twice")
        built[key] = complete
    return built


def _copy_child(child: Any) -> Object:
    if not isinstance(child, Mapping):
        raise TerminalError(
            f"a desired child is a {type(child).__name__}, not a dict with apiVersion, kind and "
            f"metadata: {child!r:.100}"
        )
    try:
        complete: Object = copy_value(child)
    except UnfitValue:
        raise TerminalError(f"{_name(child)}: {find_fault(child)}") from None
    except RecursionError:
        raise TerminalError(f"{_name(child)}: it contains itself") from None
    for field in ("apiVersion", "kind"):
        if not isinstance(complete.get(field), str) or not complete[field]:
            raise TerminalError(
                f"{_name(child)}: {field}: it must be a text, such as "
                f"{'apps/v1' if field == 'apiVersion' else 'Deployment'!r}, "
                f"not {complete.get(field)!r}"
            )
    _check_metadata(complete)
    return complete


def _check_metadata(child: Object) -> None:
    metadata = child.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise TerminalError(f"{_name(child)}: metadata: it must be a dict, not {metadata!r:.60}")
    for field in ("labels", "annotations"):
        texts = metadata.get(field)
        if texts is None:
            continue
        if not isinstance(texts, dict):
            raise TerminalError(f"{_name(child)}: metadata.{field}: it must be a dict of texts")
        for key, text in texts.items():
            if not isinstance(text, str):
                raise TerminalError(
                    f"{_name(child)}: metadata.{field}[{key}]: it must be a text, not {text!r:.60}"
                )
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field, ""), str):
            raise TerminalError(
                f"{_name(child)}: metadata.{field}: it must be a text, not {metadata[field]!r:.60}"
            )
        if not is_path_segment(metadata.get(field, "")):
            raise TerminalError(
                f"{_name(child)}: metadata.{field}: {metadata[field]!r:.60}: {SEGMENT_RULE}"
            )


def _name(child: Mapping[str, Any]) -> str:
    """Name a child that may be anything but right."""
    metadata = child.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{child.get('kind') or 'a desired child'} {name or ''}".rstrip()


def _complete_child(
    owner: Object, complete: Object, kind: ChildKind, manager: str, owner_namespaced: bool
) -> None:
    resource, metadata = kind.resource, complete["metadata"]
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
    if kind.is_kept:
        _annotate(complete, OWNER, owner_name(owner))
    else:
        metadata["ownerReferences"] = [build_owner_reference(owner)]
    if resource.kind == "Secret" and not resource.group:
        _encode_string_data(complete)


def _annotate(child: Object, name: str, value: str) -> None:
    metadata = child["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: value}


def _encode_string_data(secret: Object) -> None:
    texts = secret.pop("stringData", None) or {}
    if not isinstance(texts, dict):
        raise TerminalError(f"{_name(secret)}: stringData: it must be a dict of texts")
    for key, text in texts.items():
        if not isinstance(text, str):
            # What it holds is a secret: the message does not say it.
            raise TerminalError(
                f"{_name(secret)}: stringData[{key}]: it must be a text, "
                f"not a {type(text).__name__}"
            )
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
