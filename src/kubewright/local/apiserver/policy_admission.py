"""ValidatingAdmissionPolicy: rules in CEL that writes must keep (KEP-3488)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.api.errors import (
    APIError,
    Cause,
    Invalid,
    NotImplementedByServer,
    StatusDetails,
)
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

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_MUTATING = frozenset({"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"})
_PREFIX = f"/registry/{GROUP}/"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class PolicyAdmission:
    """Enforces the policies that bindings put into force, from the moment that they are written.

    What a policy would audit goes nowhere: this server writes no audit log.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._bound: list[tuple[Object, Object]] | None = None
        backend.store.subscribe(self._on_change)

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Ask each policy that concerns the write.

        Raises:
            APIError: a policy denies it, with the reason that it gives.
            Invalid: the write is a policy whose expressions do not compile.
            NotImplementedByServer: it is a mutating policy.
        """
        if attributes.kind.resource.group == GROUP:
            # As with webhooks, the configuration itself is exempt.
            _check_configuration(attributes)
            return
        if self._bound is None:
            self._bound = list(self._read())
        for policy, binding in self._bound:
            if self._concerns(policy, binding, attributes):
                self._apply(policy, binding, attributes)

    def _on_change(self, change: Change) -> None:
        if change.key.startswith(_PREFIX):
            self._bound = None

    def _read(self) -> Iterator[tuple[Object, Object]]:
        store = self._backend.store
        bindings = [decode_json(i.value) for i in store.scan(key_prefix(GROUP, BINDINGS))]
        for item in store.scan(key_prefix(GROUP, POLICIES)):
            policy = decode_json(item.value)
            for binding in bindings:
                if binding["spec"].get("policyName") == policy["metadata"]["name"]:
                    yield policy, binding

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

    def _apply(self, policy: Object, binding: Object, attributes: Attributes) -> None:
        spec = policy["spec"]
        data = _build_data(attributes, self._namespace(attributes))
        try:
            for params in self._params(spec, binding["spec"], attributes):
                given = cel.evaluate_variables(spec, {**data, "params": params})
                if not all(
                    cel.evaluate(condition["expression"], given) is True
                    for condition in spec.get("matchConditions") or ()
                ):
                    return
                for rule in spec.get("validations") or ():
                    _judge(policy, binding, rule, given, attributes)
        except cel.ExpressionFailed as error:
            if spec.get("failurePolicy") != "Ignore":
                _deny(policy, binding, {}, str(error), attributes)

    def _params(
        self, spec: Object, binding: Object, attributes: Attributes
    ) -> Iterator[Object | None]:
        """Yield the objects that the policy is to be asked with, or None where it takes none.

        Raises:
            ExpressionFailed: there are none, and that is to deny.
        """
        kind, reference = spec.get("paramKind"), binding.get("paramRef")
        if not kind or not reference:
            yield None
            return
        found = list(self._find_params(kind, reference, attributes))
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise cel.ExpressionFailed(
                "failed to configure binding: no params found for policy binding with `Deny` "
                "parameterNotFoundAction"
            )
        yield from found

    def _find_params(
        self, kind: Object, reference: Object, attributes: Attributes
    ) -> Iterator[Object]:
        gvk = GroupVersionKind.parse(kind.get("apiVersion") or "", kind.get("kind") or "")
        served = [k for k in self._backend.registry.kinds() if k.resource.gvk == gvk]
        if not served:
            raise cel.ExpressionFailed(f"failed to configure policy: no kind {gvk.kind} is served")
        storage = self._backend.storage(served[0])
        namespace = ""
        if served[0].resource.namespaced:
            namespace = reference.get("namespace") or attributes.namespace
        if name := reference.get("name"):
            stored = storage.read(namespace, name)
            if stored is not None:
                yield stored.object()
            return
        selector = build_label_selector(reference.get("selector") or {})
        for item in self._backend.store.scan(storage.scope(namespace)):
            obj = storage.view(item.key, item.version).object()
            if selector.matches(obj["metadata"].get("labels") or {}):
                yield obj


def _check_configuration(attributes: Attributes) -> None:
    plural, obj = attributes.kind.resource.plural, attributes.obj
    if obj is None or attributes.subresource:
        return
    if plural in _MUTATING:
        raise NotImplementedByServer(
            "mutating admission policies are not supported by this server: use a mutating webhook",
            None,
        )
    if plural == POLICIES and (causes := cel.validate_expressions(obj)):
        kind = attributes.kind.resource.kind
        raise Invalid.of(GROUP, kind, attributes.name, causes)


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


def _judge(
    policy: Object, binding: Object, rule: Object, data: Object, attributes: Attributes
) -> None:
    expression = rule["expression"]
    try:
        holds = cel.evaluate(expression, data) is True
    except cel.ExpressionFailed as error:
        raise cel.ExpressionFailed(
            f"expression '{expression}' resulted in error: {error}"
        ) from error
    if not holds:
        message = _message(rule, data) or f"failed expression: {expression.strip()}"
        _deny(policy, binding, rule, message, attributes)


def _message(rule: Object, data: Object) -> str:
    if text := rule.get("messageExpression"):
        try:
            value = cel.evaluate(text, data)
        except cel.ExpressionFailed:
            value = ""
        if isinstance(value, str) and value.strip() and "\n" not in value:
            return value.strip()
    return str(rule.get("message") or "").strip()


def _deny(
    policy: Object, binding: Object, rule: Object, message: str, attributes: Attributes
) -> None:
    """Do what the binding says of a rule that does not hold.

    Raises:
        APIError: the binding denies such writes.
    """
    what = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
    what += f" with binding '{binding['metadata']['name']}'"
    actions = binding["spec"].get("validationActions") or ()
    if "Warn" in actions:
        attributes.warnings.append(f"Validation failed for {what}: {message}")
    if "Deny" not in actions:
        return
    resource, text = attributes.kind.resource, f"{what} denied request: {message}"
    reason = rule.get("reason") or "Invalid"
    raise APIError(
        f'{resource.group_resource} "{attributes.name}" is forbidden: {text}',
        StatusDetails(
            name=attributes.name,
            group=resource.group,
            kind=resource.plural,
            causes=(Cause("", text),),
        ),
        _CODES.get(reason, 422),
        reason,
    )
