"""MutatingAdmissionPolicy: changes in CEL that are made to what is written (KEP-3962)."""

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
    from kubewright.local.apiserver import policy_mutation
else:
    cel = lazy_module("kubewright.local.apiserver.policy_expressions")
    policy_mutation = lazy_module("kubewright.local.apiserver.policy_mutation")

POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


class MutatingPolicyAdmission:
    """Makes the changes of the policies that bindings put into force, in the order of their names.

    A policy that is reinvoked is asked once more where a later one changed the object.
    """

    def __init__(self, backend: Backend) -> None:
        self._bindings = PolicyBindings(backend, POLICIES, BINDINGS)

    async def mutate(self, attributes: Attributes) -> None:
        """Let each policy that concerns the write change the object.

        Raises:
            APIError: a policy fails, and says that the write must then fail.
        """
        if attributes.obj is None:
            return
        again: list[tuple[Object, Object, Object | None]] = []
        for policy, binding in self._bindings.find(attributes):
            await self._apply(policy, binding, attributes)
            if policy["spec"].get("reinvocationPolicy") == "IfNeeded":
                again.append((policy, binding, attributes.obj))
        for policy, binding, seen in again:
            if seen != attributes.obj:
                await self._apply(policy, binding, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Judge nothing."""

    async def _apply(self, policy: Object, binding: Object, attributes: Attributes) -> None:
        spec = policy["spec"]
        try:
            async for given in self._bindings.evaluate(policy, binding, attributes):
                for mutation in spec.get("mutations") or ():
                    # Each sees what the one before it made.
                    current = cel.evaluate_variables(spec, {**given, "object": attributes.obj})
                    attributes.obj = policy_mutation.apply_mutation(mutation, current, attributes)
        except (cel.ExpressionFailed, policy_mutation.MutationFailed) as error:
            if spec.get("failurePolicy") != "Ignore":
                raise _refused(policy, binding, str(error), attributes) from error


def _refused(policy: Object, binding: Object, problem: str, attributes: Attributes) -> APIError:
    names = [part["metadata"]["name"] for part in (policy, binding)]
    text = f"policy '{names[0]}' with binding '{names[1]}' denied request: {problem}"
    resource = attributes.kind.resource
    details = StatusDetails(
        name=attributes.name,
        group=resource.group,
        kind=resource.plural,
        causes=(Cause("", text),),
    )
    return APIError(text, details, 403, "Invalid")
