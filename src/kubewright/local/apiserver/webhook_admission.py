"""Mutating and validating admission webhooks (admission.k8s.io/v1)."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import (
    APIError,
    BadRequest,
    Cause,
    Forbidden,
    InternalError,
    StatusDetails,
)
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.backend import Backend
from kubewright.local.apiserver.lazy_module import lazy_module
from kubewright.local.apiserver.webhook_call import WebhookCaller, WebhookFailed
from kubewright.local.apiserver.webhook_configuration import (
    MUTATING,
    VALIDATING,
    Hook,
    WebhookConfigurations,
)

# What only a webhook that is configured needs.
if TYPE_CHECKING:
    from kubewright.local.apiserver import match_condition
    from kubewright.local.apiserver.patch import json_patch
else:
    match_condition = lazy_module("kubewright.local.apiserver.match_condition")
    json_patch = lazy_module("kubewright.local.apiserver.patch.json_patch")

_VERSION = "admission.k8s.io/v1"


class WebhookAdmission:
    """Asks the configured webhooks: mutating ones in order, validating ones at the same time."""

    def __init__(self, backend: Backend, caller: WebhookCaller) -> None:
        self._backend = backend
        self._caller = caller
        self._configurations = WebhookConfigurations(backend.store)

    async def mutate(self, attributes: Attributes) -> None:
        """Let each mutating webhook patch the object.

        Raises:
            APIError: one of them denies the write, fails, or sends a patch that does not apply.
        """
        asked: dict[Hook, Object | None] = {}
        for hook in self._configurations.find(MUTATING, attributes):
            await self._mutate_by(hook, attributes)
            asked[hook] = attributes.obj
        for hook, seen in asked.items():
            if hook.is_reinvoked and seen != attributes.obj:
                await self._mutate_by(hook, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Ask each validating webhook about the object as it would be stored.

        Raises:
            APIError: one of them denies the write or fails.
        """
        hooks = self._configurations.find(VALIDATING, attributes)
        if not hooks:
            return
        results = await asyncio.gather(*(self._verdict(hook, attributes) for hook in hooks))
        for refusal in results:
            if refusal is not None:
                raise refusal

    async def _verdict(self, hook: Hook, attributes: Attributes) -> APIError | None:
        try:
            await self._ask(hook, attributes)
        except APIError as error:
            return error
        return None

    async def _mutate_by(self, hook: Hook, attributes: Attributes) -> None:
        response = await self._ask(hook, attributes)
        patch = (response or {}).get("patch")
        if not patch or attributes.obj is None:
            return
        try:
            operations = msgspec.json.decode(base64.b64decode(patch))
            changed = json_patch.apply_patch(attributes.obj, operations)
        except (APIError, ValueError, msgspec.DecodeError) as error:
            raise _internal(str(error.__cause__ or error)) from error
        decoded = attributes.kind.strategy.decode(changed).obj
        attributes.kind.strategy.default(decoded)
        attributes.obj = decoded

    async def _ask(self, hook: Hook, attributes: Attributes) -> Object | None:
        """Return the webhook's response; None where it was not asked.

        Raises:
            APIError: it denies the write, or failed and may not be passed over.
        """
        request = self._build_request(attributes)
        if not self._applies(hook, attributes, request):
            return None
        if attributes.dry_run and not hook.allows_dry_run:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run', None)
        review = {"kind": "AdmissionReview", "apiVersion": _VERSION, "request": request}
        try:
            config = hook.source["clientConfig"]
            answer = await self._caller.ask(config, review, hook.timeout)
            response = _check(answer, request["uid"])
        except WebhookFailed as error:
            if hook.ignores_failure:
                return None
            problem = f'failed calling webhook "{hook.name}": failed to call webhook: {error}'
            raise _internal(problem) from error
        for warning in response.get("warnings") or ():
            attributes.warnings.append(str(warning))
        if not response.get("allowed"):
            raise _denied(hook, response.get("status") or {})
        return response

    def _applies(self, hook: Hook, attributes: Attributes, request: Object) -> bool:
        """Evaluate the match conditions: one that is false spares the webhook.

        Raises:
            Forbidden: none is false, and one failed.
        """
        data = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
        failure = ""
        for condition in hook.source.get("matchConditions") or ():
            try:
                if not match_condition.holds(condition["expression"], data):
                    return False
            except match_condition.ConditionFailed as error:
                failure = failure or str(error)
        if failure and hook.ignores_failure:
            return False
        if failure:
            resource = attributes.kind.resource
            raise Forbidden(
                f'{resource.group_resource} "{attributes.name}" is forbidden: {failure}',
                StatusDetails(name=attributes.name, group=resource.group, kind=resource.plural),
            )
        return True

    def _build_request(self, attributes: Attributes) -> Object:
        resource = attributes.kind.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        where = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        request: Object = {
            "uid": self._backend.new_uid(),
            "kind": kind,
            "resource": where,
            "requestKind": kind,
            "requestResource": where,
            "operation": attributes.operation,
            "userInfo": _user_info(attributes),
            "object": _typed(attributes, attributes.obj),
            "oldObject": _typed(attributes, attributes.old),
            "dryRun": attributes.dry_run,
            "options": attributes.options,
        }
        if attributes.name:
            request["name"] = attributes.name
        if attributes.namespace:
            request["namespace"] = attributes.namespace
        if attributes.subresource:
            request["subResource"] = attributes.subresource
            request["requestSubResource"] = attributes.subresource
        return request


def _typed(attributes: Attributes, obj: Object | None) -> Object | None:
    if obj is None:
        return None
    resource = attributes.kind.resource
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


def _user_info(attributes: Attributes) -> Object:
    user = attributes.user
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _check(answer: Object, uid: str) -> Object:
    """Return the response of a review that answers ours.

    Raises:
        WebhookFailed: it answers something else.
    """
    response = answer.get("response")
    if not isinstance(response, dict):
        raise WebhookFailed("webhook response was absent")
    if answer.get("kind") != "AdmissionReview" or answer.get("apiVersion") != _VERSION:
        expected, found = f"{_VERSION}, Kind=AdmissionReview", answer.get("apiVersion")
        raise WebhookFailed(f"expected webhook response of {expected}, got {found}")
    if response.get("uid") != uid:
        found = response.get("uid") or ""
        raise WebhookFailed(f'expected response.uid="{uid}", got "{found}"')
    return response


def _denied(hook: Hook, status: Object) -> APIError:
    message: Any = status.get("message") or status.get("reason")
    text = f'admission webhook "{hook.name}" denied the request'
    text += f": {message}" if message else " without explanation"
    code = int(status.get("code") or 0)
    details = status.get("details")
    return APIError(
        text,
        None if details is None else StatusDetails.from_object(details),
        code if code >= 400 else 400,
        status.get("reason") or "",
    )


def _internal(problem: str) -> InternalError:
    details = StatusDetails(causes=(Cause("", problem),))
    return InternalError(f"Internal error occurred: {problem}", details)
