"""The CustomResourceDefinition of a kind that has several versions."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.errors import SchemaError
from kubewright.api.resource import Object


def merge_definitions(definitions: Sequence[Object], client_config: Object) -> Object:
    """Merge definitions of one version each into one that converts by webhook.

    Arguments:
        definitions: what `crd()` of each version's class returns; their first one lends the names.
        client_config: where the conversion webhook is: a `url`, or a `service`.

    Raises:
        SchemaError: the versions do not agree on names or scope, two are the same, or not exactly
            one of them is the storage version.
    """
    first = definitions[0]
    versions: list[Object] = []
    for definition in definitions:
        versions += definition["spec"]["versions"]
        for field in ("names", "scope"):
            if definition["spec"][field] != first["spec"][field]:
                raise SchemaError(
                    f"{_name_of(first)}: the versions {versions[0]['name']} and "
                    f"{versions[-1]['name']} differ in {field}: "
                    f"{first['spec'][field]} and {definition['spec'][field]}"
                )
    _check_versions(_name_of(first), versions)
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
    }
    return {**first, "spec": {**first["spec"], "versions": versions, "conversion": conversion}}


def _check_versions(name: str, versions: Sequence[Object]) -> None:
    names = [version["name"] for version in versions]
    if len(set(names)) < len(names):
        raise SchemaError(f"{name}: two classes are of the same version: {', '.join(names)}")
    stored = [version["name"] for version in versions if version["storage"]]
    if len(stored) != 1:
        raise SchemaError(
            f"{name}: of {', '.join(names)} exactly one is stored, not "
            f"{' and '.join(stored) or 'none'}: give the others storage=False"
        )


def _name_of(definition: Object) -> str:
    return str(definition["metadata"]["name"])
