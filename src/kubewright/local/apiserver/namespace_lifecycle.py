"""NamespaceLifecycle: nothing is created in a namespace that is missing or going away."""

from __future__ import annotations

from kubewright.api.errors import Cause, Forbidden, NotFound, StatusDetails
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.store import VersionedStore

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_NAMESPACES = key_prefix("", "namespaces")


class NamespaceLifecycle:
    """Refuses creations in missing and terminating namespaces, and deletion of the first ones."""

    def __init__(self, store: VersionedStore) -> None:
        self._store = store
        # The answer for a namespace is kept with the revision at which it was read.
        self._terminating: dict[str, tuple[int, bool]] = {}

    async def mutate(self, attributes: Attributes) -> None:
        """Check the namespace of a creation, and that a deletion may be."""
        resource = attributes.kind.resource
        if resource.group == "" and resource.plural == "namespaces":
            if attributes.operation == "DELETE" and attributes.name in IMMORTAL:
                raise Forbidden(
                    f'namespaces "{attributes.name}" is forbidden: this namespace may not be '
                    "deleted",
                    StatusDetails(name=attributes.name, kind="namespaces"),
                )
            return
        if attributes.operation == "CREATE" and attributes.namespace:
            self._check(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing more."""

    def _check(self, attributes: Attributes) -> None:
        namespace = attributes.namespace
        version = self._store.get(_NAMESPACES + namespace)
        if version is None:
            raise NotFound.of("", "namespaces", namespace)
        known = self._terminating.get(namespace)
        if known is None or known[0] != version.revision:
            status = decode_json(version.value or b"{}").get("status") or {}
            known = (version.revision, status.get("phase") == "Terminating")
            self._terminating[namespace] = known
        if known[1]:
            raise _terminating(attributes)


def _terminating(attributes: Attributes) -> Forbidden:
    namespace = attributes.namespace
    resource = attributes.kind.resource
    shown = f' "{attributes.name}"' if attributes.name else ""
    cause = Cause(
        "NamespaceTerminating",
        f"namespace {namespace} is being terminated",
        "metadata.namespace",
    )
    return Forbidden(
        f"{resource.group_resource}{shown} is forbidden: unable to create new content in namespace "
        f"{namespace} because it is being terminated",
        StatusDetails(
            name=attributes.name, group=resource.group, kind=resource.plural, causes=(cause,)
        ),
    )
