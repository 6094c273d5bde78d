"""CustomResourceDefinition objects: how their parts are addressed in messages, and defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.api.resource import Object

_PER_VERSION = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def default_definition(crd: Object) -> None:
    """Fill in what may be left out of a definition, in place: singular, listKind, conversion."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
    elif service := ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service"):
        service.setdefault("port", 443)


def set_stored_version(crd: Object, before: list[str]) -> None:
    """Add the storage version to `status.storedVersions`, after those of before; in place."""
    stored = list(before)
    for version in (crd.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                stored.append(version["name"])
            break
    crd.setdefault("status", {})["storedVersions"] = stored


def is_hoisted(versions: list[Mapping[str, Any]], part: str) -> bool:
    """Tell whether all versions agree on a part.

    The API server then holds it once, at the top of the spec, and its messages name that place.
    """
    first = versions[0].get(part) if versions else None
    return all(version.get(part) == first for version in versions)


def version_parts(spec: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any]]:
    """Yield a part of the versions, with the path that messages give it.

    Args:
        spec: the spec of a definition.
        part: `schema`, `subresources`, `additionalPrinterColumns` or `selectableFields`.
    """
    versions = spec.get("versions") or []
    if versions and is_hoisted(versions, part):
        top = "validation" if part == "schema" else part
        if versions[0].get(part) is not None:
            yield f"spec.{top}", versions[0][part]
        return
    for index, version in enumerate(versions):
        if version.get(part) is not None:
            yield f"spec.versions[{index}].{part}", version[part]


def show_versions(versions: list[Mapping[str, Any]]) -> list[Object]:
    """Return versions as messages print them: in the fields of the server's internal type."""
    return [
        {
            "Name": version.get("name") or "",
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            **{
                part[0].upper() + part[1:]: None
                if is_hoisted(versions, part)
                else version.get(part)
                for part in _PER_VERSION
            },
        }
        for version in versions
    ]
