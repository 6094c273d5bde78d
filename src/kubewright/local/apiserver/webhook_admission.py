"""Mutating and validating admission webhooks (admission.k8s.io/v1)."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

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
from kubewright.local.apiserver.kind import ServedKind
from kubewright.local.apiserver.kind_versions import convert_object
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
        self._configurations = WebhookConfigurations(backend.store, backend.registry)

    async def mutate(self, attributes: Attributes) -> None:
        """Let each mutating webhook patch the object.

        Raises:
            APIError: one of them denies the write, fails, or sends a patch that does not apply.
        """
        asked: list[tuple[Hook, ServedKind, Object | None]] = []
        for hook, kind in self._configurations.find(MUTATING, attributes):
            await self._mutate_by(hook, kind, attributes)
            asked.append((hook, kind, attributes.obj))
        for hook, kind, seen in asked:
            if hook.is_reinvoked and seen != attributes.obj:
                await self._mutate_by(hook, kind, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Ask each validating webhook about the object as it would be stored.

        Raises:
            APIError: one of them denies the write or fails.
        """
        hooks = self._configurations.find(VALIDATING, attributes)
        if not hooks:
            return
        results = await asyncio.gather(
            *(self._verdict(hook, kind, attributes) for hook, kind in hooks)
        )
        for refusal in results:
            if refusal is not None:
                raise refusal

    async def _verdict(
        self, hook: Hook, kind: ServedKind, attributes: Attributes
    ) -> APIError | None:
        try:
            await self._ask(hook, await _in_kind(attributes, kind), attributes)
        except APIError as error:
            return error
        return None

    async def _mutate_by(self, hook: Hook, kind: ServedKind, attributes: Attributes) -> None:
        shown = await _in_kind(attributes, kind)
        response = await self._ask(hook, shown, attributes)
        patch = (response or {}).get("patch")
        if not patch or shown.obj is None:
            return
        try:
            operations = msgspec.json.decode(base64.b64decode(patch))
            changed = json_patch.apply_patch(shown.obj, operations)
        except (APIError, ValueError, msgspec.DecodeError) as error:
            raise _internal(str(error.__cause__ or error)) from error
        if kind is not attributes.kind:
            changed = await convert_object(changed, attributes.kind)
        decoded = attributes.kind.strategy.decode(changed).obj
        attributes.kind.strategy.default(decoded)
        attributes.obj = decoded

    async def _ask(self, hook: Hook, shown: Attributes, attributes: Attributes) -> Object | None:
        """Return the webhook's response; None where it was not asked.

        `shown` is the write in the version that the webhook asks for, `attributes` as requested.

        Raises:
            APIError: it denies the write, or failed and may not be passed over.
        """
        request = self._build_request(shown, attributes)
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

    def _build_request(self, shown: Attributes, attributes: Attributes) -> Object:
        kind, where = _names(shown)
        asked_kind, asked_where = _names(attributes)
        request: Object = {
            "uid": self._backend.new_uid(),
            "kind": kind,
            "resource": where,
            "requestKind": asked_kind,
            "requestResource": asked_where,
            "operation": attributes.operation,
            "userInfo": _user_info(attributes),
            "object": _typed(shown, shown.obj),
            "oldObject": _typed(shown, shown.old),
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


async def _in_kind(attributes: Attributes, kind: ServedKind) -> Attributes:
    """Return a write with its objects in another version; the same where it is that one already.

    Raises:
        ConversionFailed: a webhook does not convert them.
    """
    if kind is attributes.kind:
        return attributes
    obj, old = _typed(attributes, attributes.obj), _typed(attributes, attributes.old)
    return replace(
        attributes,
        kind=kind,
        obj=None if obj is None else await convert_object(obj, kind),
        old=None if old is None else await convert_object(old, kind),
    )


def _names(attributes: Attributes) -> tuple[Object, Object]:
    """Return how a review names the kind and the resource of a write."""
    resource = attributes.kind.resource
    version = {"group": resource.group, "version": resource.version}
    return {**version, "kind": resource.kind}, {**version, "resource": resource.plural}


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
