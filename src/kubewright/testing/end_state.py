"""The state that a run ends in, made comparable with that of another run."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.resource import Object, Resource
from kubewright.client.client import Client
from kubewright.runtime.child_kind import MANAGED_BY, OWNER
from kubewright.testing.observation import name_of

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNREPEATABLE = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"})
_ABSENT = object()


class EndState(msgspec.Struct, frozen=True):
    """The objects of some kinds in one namespace, by a name that another run has too.

    Attributes:
        objects: without what no two runs have in common: uids, resource versions, times, generated
            names, and the name of the namespace.
        orphans: the names of those whose owner is gone, or that lost the reference to it.
    """

    objects: dict[str, Object]
    orphans: tuple[str, ...]

    def differences(self, other: EndState) -> list[str]:
        """Say in sentences how another state differs from this one, the one expected."""
        lines = []
        for name in sorted({*self.objects, *other.objects}):
            if name not in other.objects:
                lines.append(f"{name}: is missing")
            elif name not in self.objects:
                lines.append(f"{name}: should not exist")
            else:
                changes = compare(self.objects[name], other.objects[name])
                lines += [f"{name}: {change}" for change in changes]
        return lines


async def read_objects(
    client: Client, resources: Sequence[Resource], namespace: str
) -> list[Object]:
    """Read all objects of some kinds: those of a namespace, and cluster-scoped ones.

    A kind that is not served has none.
    """
    found: list[Object] = []
    for resource in resources:
        where = namespace if resource.namespaced else None
        with contextlib.suppress(NotFound):
            found += await client.list(resource, namespace=where)
    return found


def build_end_state(objects: Sequence[Object], *, namespace: str, operator: str) -> EndState:
    """Make objects comparable, and find the orphans among them."""
    words = {namespace: "<namespace>"}
    for obj in objects:
        metadata = obj["metadata"]
        words[metadata["uid"]] = f"<uid of {_key(obj)}>"
        if metadata.get("generateName"):
            words[metadata["name"]] = f"{metadata['generateName']}<generated>"
        words.update((address, f"<address of {_key(obj)}>") for address in _addresses(obj))
    plain = [_normalise(obj, words) for obj in objects]
    # Objects with a generated name are told apart by what they hold; that is sorted.
    plain.sort(key=lambda obj: (_key(obj), repr(obj)))
    numbers: Counter[str] = Counter()
    named: dict[str, Object] = {}
    for obj in plain:
        key = _key(obj)
        numbers[key] += 1
        named[key if numbers[key] == 1 else f"{key} ({numbers[key]})"] = obj
    return EndState(named, tuple(name_of(obj) for obj in find_orphans(objects, operator)))


def find_orphans(objects: Sequence[Object], operator: str) -> Iterator[Object]:
    """Find what should have gone with its owner, or has lost the reference to it.

    Only what the operator made is judged: the owners of other objects may be of any kind.
    """
    uids = {obj["metadata"]["uid"] for obj in objects}
    for obj in objects:
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or []
        is_managed = (metadata.get("labels") or {}).get(MANAGED_BY) == operator
        is_kept = OWNER in (metadata.get("annotations") or {})
        has_owner = any(reference["uid"] in uids for reference in references)
        if is_managed and not is_kept and not has_owner:
            yield obj


def compare(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield the differences between two JSON values, each with its path."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            inner = f"{path}.{key}" if path else str(key)
            yield from compare(expected.get(key, _ABSENT), found.get(key, _ABSENT), inner)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from compare(left, right, f"{path}[{index}]")
    elif expected != found:
        yield f"{path} should be {_write(expected)}, is {_write(found)}"


def _write(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)


def _key(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"


def _normalise(obj: Object, words: dict[str, str]) -> Object:
    plain: Object = _replace(obj, words)
    _allocate(plain)
    metadata = plain["metadata"] = {
        key: value for key, value in plain["metadata"].items() if key not in _UNREPEATABLE
    }
    managers = metadata.get("managedFields")
    if managers:
        # The server sorts them by time.
        metadata["managedFields"] = sorted(managers, key=_manager_key)
    return plain


def _addresses(obj: Object) -> list[str]:
    """Return the addresses that the server drew for a Service."""
    spec = obj.get("spec") if obj["kind"] == "Service" else None
    return [address for address in (spec or {}).get("clusterIPs") or () if address != "None"]


def _allocate(obj: Object) -> None:
    """Write a word for the ports of nodes, which the server draws as well."""
    spec = obj.get("spec") or {}
    for holder in (spec, *(spec.get("ports") or ())) if obj["kind"] == "Service" else ():
        for field in ("nodePort", "healthCheckNodePort"):
            if holder.get(field):
                holder[field] = "<port of a node>"


def _manager_key(entry: Object) -> tuple[str, str, str, str]:
    parts = ("manager", "operation", "subresource", "apiVersion")
    first, second, third, fourth = (str(entry.get(part) or "") for part in parts)
    return first, second, third, fourth


def _replace(value: Any, words: dict[str, str]) -> Any:
    """Copy a JSON value; write words for what another run calls differently, in keys too."""
    if isinstance(value, dict):
        return {_reword(key, words): _replace(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace(inner, words) for inner in value]
    return _reword(value, words) if isinstance(value, str) else value


def _reword(text: str, words: dict[str, str]) -> str:
    if text in words:
        return words[text]
    if _TIME.fullmatch(text):
        return "<time>"
    # Managed fields name list items by their keys, which are uids for owner references.
    return _UID.sub(lambda uid: words.get(uid[0], "<uid of something else>"), text)
