"""ValidatingAdmissionPolicy: rules in CEL that writes must keep (KEP-3488)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Cause, StatusDetails
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.policy_bindings import PolicyBindings

if TYPE_CHECKING:
    from kubewright.local.apiserver import policy_expressions as cel
else:
    cel = lazy_module("kubewright.local.apiserver.policy_expressions")

POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class PolicyAdmission:
    """Enforces the policies that bindings put into force, from the moment that they are written.

    What a policy would audit goes nowhere: this server writes no audit log.
    """

    def __init__(self, backend: Backend) -> None:
        self._bindings = PolicyBindings(backend, POLICIES, BINDINGS)

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Ask each policy that concerns the write.

        Raises:
            APIError: a policy denies it, with the reason that it gives.
        """
        for policy, binding in self._bindings.find(attributes):
            await self._apply(policy, binding, attributes)

    async def _apply(self, policy: Object, binding: Object, attributes: Attributes) -> None:
        spec = policy["spec"]
        try:
            async for given in self._bindings.evaluate(policy, binding, attributes):
                for rule in spec.get("validations") or ():
                    _judge(policy, binding, rule, given, attributes)
        except cel.ExpressionFailed as error:
            if spec.get("failurePolicy") != "Ignore":
                _deny(policy, binding, {}, str(error), attributes)


def _judge(
    policy: Object, binding: Object, rule: Object, data: Object, attributes: Attributes
) -> None:
    expression = rule["expression"]
    if cel.evaluate_named(expression, data) is not True:
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
