"""Admission policies as bindings put them into force: which of them a write concerns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from kubewright.api.resource import GroupVersionKind, Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.selectors import build_label_selector
from kubewright.local.apiserver.storage import decode_json, key_prefix
from kubewright.local.apiserver.webhook_configuration import GROUP, Hook
from kubewright.local.store import Change

if TYPE_CHECKING:
    from kubewright.local.apiserver import policy_expressions as cel
else:
    cel = lazy_module("kubewright.local.apiserver.policy_expressions")

_PREFIX = f"/registry/{GROUP}/"


class PolicyBindings:
    """The policies of one kind with their bindings, read again after a change.

    Args:
        backend: the store and the kinds.
        policies, bindings: the plurals of the two kinds.
    """

    def __init__(self, backend: Backend, policies: str, bindings: str) -> None:
        self._backend = backend
        self._policies = policies
        self._bindings = bindings
        self._bound: list[tuple[Object, Object]] | None = None
        backend.store.subscribe(self._on_change)

    def find(self, attributes: Attributes) -> list[tuple[Object, Object]]:
        """Return the policies that a write concerns, each with the binding that says so.

        The configuration of admission itself is exempt, or nobody could repair a broken one.
        """
        if self._bound is None:
            self._bound = list(self._read())
        if not self._bound or attributes.kind.resource.group == GROUP:
            return []
        return [pair for pair in self._bound if self._concerns(*pair, attributes)]

    async def evaluate(
        self, policy: Object, binding: Object, attributes: Attributes
    ) -> AsyncIterator[Object]:
        """Yield what the expressions of a policy can look at, once for each of its parameters.

        It ends with the first ones with which the match conditions do not hold.

        Raises:
            ExpressionFailed: a condition has no value, or parameters that must be there are not.
        """
        spec = policy["spec"]
        data = _build_data(attributes, self._namespace(attributes))
        for params in await self._find_params(spec, binding["spec"], attributes):
            given = cel.evaluate_variables(spec, {**data, "params": params})
            if not cel.meets_conditions(spec, given):
                return
            yield given

    def _on_change(self, change: Change) -> None:
        if change.key.startswith(_PREFIX):
            self._bound = None

    def _read(self) -> Iterator[tuple[Object, Object]]:
        store = self._backend.store
        bindings = [decode_json(i.value) for i in store.scan(key_prefix(GROUP, self._bindings))]
        for item in store.scan(key_prefix(GROUP, self._policies)):
            policy = decode_json(item.value)
            for binding in bindings:
                if binding["spec"].get("policyName") == policy["metadata"]["name"]:
                    yield policy, binding

    async def _find_params(
        self, spec: Object, binding: Object, attributes: Attributes
    ) -> Sequence[Object | None]:
        """Return the objects that a policy is to be asked with; None alone where it takes none.

        Raises:
            ExpressionFailed: there are none, and that is to deny.
        """
        kind, reference = spec.get("paramKind"), binding.get("paramRef")
        if not kind or not reference:
            return [None]
        found = await self._read_params(kind, reference, attributes)
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise cel.ExpressionFailed(
                "failed to configure binding: no params found for policy binding with `Deny` "
                "parameterNotFoundAction"
            )
        return found

    async def _read_params(
        self, kind: Object, reference: Object, attributes: Attributes
    ) -> list[Object]:
        gvk = GroupVersionKind.parse(kind.get("apiVersion") or "", kind.get("kind") or "")
        served = [k for k in self._backend.registry.kinds() if k.resource.gvk == gvk]
        if not served:
            raise cel.ExpressionFailed(f"failed to configure policy: no kind {gvk.kind} is served")
        storage = self._backend.storage(served[0])
        namespace = ""
        if served[0].resource.namespaced:
            namespace = reference.get("namespace") or attributes.namespace
        if name := reference.get("name"):
            stored = await storage.get(namespace, name)
            return [] if stored is None else [stored.object()]
        selector = build_label_selector(reference.get("selector") or {})
        items = list(self._backend.store.scan(storage.scope(namespace)))
        objects = [decode_json(text) for text in await storage.texts(items)]
        return [o for o in objects if selector.matches(o["metadata"].get("labels") or {})]

    def _concerns(self, policy: Object, binding: Object, attributes: Attributes) -> bool:
        labels = self._namespace_labels(attributes)
        constraints = policy["spec"].get("matchConstraints") or {}
        selected = binding["spec"].get("matchResources") or {}
        return _matches(constraints, attributes, labels, required=True) and _matches(
            selected, attributes, labels, required=False
        )

    def _namespace(self, attributes: Attributes) -> Object | None:
        if not attributes.namespace:
            return None
        version = self._backend.store.get(key_prefix("", "namespaces") + attributes.namespace)
        return decode_json(version.value or b"{}") if version else None

    def _namespace_labels(self, attributes: Attributes) -> dict[str, str] | None:
        resource = attributes.kind.resource
        if resource.group == "" and resource.plural == "namespaces":
            holder = attributes.obj or attributes.old
        else:
            holder = self._namespace(attributes)
        return None if holder is None else (holder.get("metadata") or {}).get("labels") or {}


def _matches(
    wanted: Object, attributes: Attributes, labels: dict[str, str] | None, *, required: bool
) -> bool:
    """Tell whether a write is among the resources meant; without rules all are, unless required."""
    rules = wanted.get("resourceRules") or ()
    if rules or required:
        chosen = [rule for rule in rules if _names(rule, attributes)]
        if not Hook("", {"rules": chosen}).concerns(attributes):
            return False
    excluded = [r for r in wanted.get("excludeResourceRules") or () if _names(r, attributes)]
    if Hook("", {"rules": excluded}).concerns(attributes):
        return False
    hook = Hook("", wanted)
    return hook.selects_namespace(labels) and hook.selects_object(attributes)


def _names(rule: Object, attributes: Attributes) -> bool:
    names = rule.get("resourceNames") or ()
    return not names or attributes.name in names


def _build_data(attributes: Attributes, namespace: Object | None) -> Object:
    resource, user = attributes.kind.resource, attributes.user
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    where = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    return {
        "object": attributes.obj,
        "oldObject": attributes.old,
        "namespaceObject": namespace,
        "request": {
            "kind": kind,
            "resource": where,
            "requestKind": kind,
            "requestResource": where,
            "subResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": attributes.operation,
            "dryRun": attributes.dry_run,
            "options": attributes.options,
            "userInfo": {"username": user.name, "uid": user.uid, "groups": list(user.groups)},
        },
    }
