"""ResourceQuota admission: a namespace takes no more than its quotas allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kubewright.api.errors import Forbidden, StatusDetails
from kubewright.api.quantity import Quantity
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.storage import ObjectStorage, Stored, decode_json
from kubewright.local.store import KeyMissing, RevisionMismatch

if TYPE_CHECKING:
    from kubewright.local.quota import usage as quota_usage
    from kubewright.local.quota.usage import Usage
else:
    # Few namespaces have a quota.
    quota_usage = lazy_module("kubewright.local.quota.usage")


class QuotaAdmission:
    """Counts the objects of a namespace whenever one is added to it or grows.

    The count is made from what is stored at that moment, so that it holds without a controller; it
    is written into the status of the quota that the write was counted in. What deletions free is
    seen by the next write.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuse a write that would exceed a quota, and count one that would not.

        Raises:
            Forbidden: a quota is exceeded, or needs an amount that a pod does not tell.
        """
        obj, resource = attributes.obj, attributes.kind.resource
        if obj is None or not resource.namespaced or attributes.subresource not in ("", "resize"):
            return
        storage = self._backend.storage_of("", "v1", "resourcequotas")
        scope = storage.scope(attributes.namespace)
        quotas = [storage.view(item.key, item.version) for item in self._backend.store.scan(scope)]
        counted = [
            (stored, used)
            for stored in quotas
            if (used := self._count(attributes, stored.object(), obj)) is not None
        ]
        if not attributes.dry_run:
            for stored, used in counted:
                _write(storage, stored, used)

    def _count(self, attributes: Attributes, quota: Object, obj: Object) -> Usage | None:
        """Return what is used after a write; None where the write does not concern the quota."""
        resource, hard = attributes.kind.resource, (quota.get("spec") or {}).get("hard") or {}
        if not quota_usage.is_selected(quota, resource, obj):
            return None
        added = quota_usage.usage_of(resource, obj)
        old = attributes.old
        if old is not None and quota_usage.is_selected(quota, resource, old):
            added = _growth(added, quota_usage.usage_of(resource, old))
        added = {name: amount for name, amount in added.items() if name in hard and amount.value}
        if attributes.old is None and resource.plural == "pods" and not resource.group:
            self._check_told(attributes, quota, hard, obj)
        if not added:
            return None
        used = self._used(quota, attributes.namespace, hard)
        _check(attributes, quota, added, used, hard)
        return quota_usage.sum_usage([used, added])

    def _check_told(
        self, attributes: Attributes, quota: Object, hard: Iterable[str], pod: Object
    ) -> None:
        if missing := quota_usage.find_missing(hard, pod):
            told = "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items())
            name = quota["metadata"]["name"]
            raise _refused(attributes, f"failed quota: {name}: must specify {told}")

    def _used(self, quota: Object, namespace: str, hard: Collection[str]) -> Usage:
        """Count what the namespace holds of the resources that a quota limits."""
        now = self._backend.now()
        parts: list[Usage] = []
        for kind in self._backend.registry.kinds():
            resource = kind.resource
            if kind.stored_as != resource:
                continue
            names = quota_usage.names_counted(resource, hard)
            if not names:
                continue
            # What nothing can count has no usage, rather than none of it used.
            parts.append({name: Quantity(0) for name in names})
            storage = self._backend.storage(kind)
            for item in self._backend.store.scan(storage.scope(namespace)):
                obj = decode_json(item.value)
                if quota_usage.is_selected(quota, resource, obj):
                    usage = quota_usage.usage_of(resource, obj, now)
                    parts.append({key: usage[key] for key in usage.keys() & names})
        return quota_usage.sum_usage(parts)


def _growth(new: Usage, old: Usage) -> Usage:
    grown: Usage = {}
    for name, amount in new.items():
        before = old[name].value if name in old else 0
        if amount.value > before:
            amount.value -= before
            grown[name] = amount
    return grown


def _check(
    attributes: Attributes, quota: Object, added: Usage, used: Usage, hard: dict[str, str]
) -> None:
    over = [
        name
        for name, amount in sorted(added.items())
        if used[name].value + amount.value > Quantity(hard[name]).value
    ]
    if not over:
        return

    def show(amounts: dict[str, str]) -> str:
        return ",".join(f"{name}={amounts[name]}" for name in over)

    requested = show({name: str(added[name]) for name in over})
    before = show({name: str(used[name]) for name in over})
    raise _refused(
        attributes,
        f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {before}, "
        f"limited: {show(hard)}",
    )


def _refused(attributes: Attributes, message: str) -> Forbidden:
    resource = attributes.kind.resource
    return Forbidden(
        f'{resource.group_resource} "{attributes.name}" is forbidden: {message}',
        StatusDetails(name=attributes.name, group=resource.group, kind=resource.plural),
    )


def _write(storage: ObjectStorage, stored: Stored, used: Usage) -> None:
    quota = stored.object()
    shown = {name: str(amount) for name, amount in sorted(used.items())}
    status = {"hard": quota["spec"]["hard"], "used": shown}
    if quota.get("status") == status:
        return
    try:
        storage.update(stored, {**quota, "status": status})
    except (KeyMissing, RevisionMismatch):
        # Another write counted meanwhile; the next one counts all anew.
        return
