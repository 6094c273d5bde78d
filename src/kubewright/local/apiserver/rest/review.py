"""Reviews: questions that are answered and not stored."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from kubewright.api.errors import BadRequest, Cause, Invalid, Unauthorized
from kubewright.api.resource import Object, Resource
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import track_update
from kubewright.local.apiserver.apply.managers import ManagerIdentity
from kubewright.local.apiserver.authentication import Authenticator
from kubewright.local.apiserver.authorization import Authorizer
from kubewright.local.apiserver.builtin.definitions import schema_for
from kubewright.local.apiserver.builtin.names import definition_name
from kubewright.local.apiserver.builtin.strategy import BuiltinStrategy
from kubewright.local.apiserver.exchange import Answer, User, encode_json
from kubewright.local.apiserver.field_management import empty_object, identify
from kubewright.local.apiserver.options import WriteOptions, parse_write_options
from kubewright.local.apiserver.request import RequestInfo
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.decode import check_namespace, decode_body, metadata_of
from kubewright.local.apiserver.tokens import ISSUER, TokenIssuer

_AUTHORIZATION = "authorization.k8s.io"


class Reviewer:
    """Answers reviews from what decides about requests."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, issuer: TokenIssuer | None
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._issuer = issuer

    async def create(self, call: Call) -> Answer:
        """Answer the review in the body."""
        options = parse_write_options(call.request, "CreateOptions")
        body = decode_body(call, options)
        check_namespace(call, body)
        plural = call.kind.resource.plural
        spec = body.get("spec") or {}
        if plural == "selfsubjectreviews":
            return self._self(call, body)
        _track(call, options, body)
        if plural == "tokenreviews":
            body["status"] = self._token(spec)
        elif plural == "selfsubjectrulesreviews":
            body["status"] = self._rules(call.request.user, spec.get("namespace") or "")
        else:
            body["status"] = self._access(call, spec, plural)
        return call.answer_plain(201, encode_json(body))

    def _self(self, call: Call, body: Object) -> Answer:
        body["metadata"] = {"creationTimestamp": format_time(call.backend.now())}
        body["status"] = {"userInfo": _user_info(call.request.user)}
        return call.answer_plain(201, encode_json(body))

    def _access(self, call: Call, spec: Object, plural: str) -> Object:
        is_self = plural == "selfsubjectaccessreviews"
        _check_access(call, spec, plural)
        user = call.request.user
        if not is_self:
            extra = spec.get("extra") or {}
            user = User(
                spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid", ""), extra
            )
        info, path = _info(spec)
        status: Object = {"allowed": self._authorizer.allows(user, info, path)}
        if status["allowed"] and (reason := self._authorizer.reason(user, info, path)):
            status["reason"] = reason
        return status

    def _rules(self, user: User, namespace: str) -> Object:
        """Return what a user may do in a namespace, as far as rules say it."""
        rules = self._authorizer.rules(user, namespace)
        return {
            "resourceRules": [rule for rule in rules if "resources" in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": False,
        }

    def _token(self, spec: Object) -> Object:
        wanted = tuple(spec.get("audiences") or (ISSUER,))
        token = spec.get("token") or ""
        if not token:
            raise BadRequest("token is required for TokenReview in authentication", None)
        claims = self._issuer.read(token) if self._issuer else None
        if claims is not None:
            shared = [audience for audience in wanted if audience in claims.audiences]
            if not shared:
                return {"user": {}, "error": _wrong_audience(claims.audiences, wanted)}
            return {"authenticated": True, "user": _user_info(claims.user), "audiences": shared}
        try:
            user = self._authenticator.check_token(token)
        except Unauthorized:
            return {"user": {}, "error": self._token_problem(token)}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(wanted)}

    def _token_problem(self, token: str) -> str:
        problem = "invalid bearer token"
        account = self._issuer.lost_account(token) if self._issuer else ""
        return f'[{problem}, serviceaccounts "{account}" not found]' if account else problem


def _wrong_audience(found: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    return (
        f"[invalid bearer token, token audiences {_quote(found)} is invalid for the target "
        f"audiences {_quote(wanted)}]"
    )


def _quote(texts: tuple[str, ...]) -> str:
    """Write texts as Go's `%q` writes a slice."""
    return f"[{' '.join(json.dumps(text, ensure_ascii=False) for text in texts)}]"


def decode_review(call: Call, options: WriteOptions, group: str, kind: str) -> Object:
    """Decode the body of a subresource that is an object of another kind, version v1.

    Raises:
        BadRequest: it is no such object.
    """
    resource = Resource(group, "v1", kind, call.kind.resource.plural)
    definition = definition_name(resource.gvk)
    strategy: Any = BuiltinStrategy(resource, definition, has_status=False)
    other = replace(
        call.kind,
        resource=resource,
        strategy=strategy,
        schema=schema_for(definition),
        definition=definition,
    )
    return decode_body(replace(call, kind=other), options)


def _track(call: Call, options: WriteOptions, body: Object) -> None:
    """Record who asks, as the API server does even for what it does not store."""
    manager = identify(call, options)
    tracked = track_update(
        None,
        body,
        schema=call.kind.schema,
        manager=ManagerIdentity(manager.name, manager.api_version),
        now=format_time(call.backend.now()),
        empty=empty_object(call.kind),
    )
    body["metadata"] = tracked["metadata"]
    metadata_of(body).pop("creationTimestamp", None)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _check_access(call: Call, spec: Object, plural: str) -> None:
    causes: list[Cause] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        shown = "null"
        if path is not None:
            shown = json.dumps(
                {"Path": path.get("path", ""), "Verb": path.get("verb", "")}, separators=(",", ":")
            )
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(_invalid("spec", shown, message))
    needs_user = plural != "selfsubjectaccessreviews"
    if needs_user and not spec.get("user") and not spec.get("groups"):
        message = "at least one of user or group must be specified"
        causes.append(_invalid("spec.user", '""', message))
    if plural == "localsubjectaccessreviews" and resource is not None:
        namespace = resource.get("namespace") or ""
        if namespace != call.namespace:
            causes.append(
                _invalid(
                    "spec.resourceAttributes.namespace",
                    json.dumps(namespace),
                    "must match metadata.namespace",
                )
            )
    if causes:
        raise Invalid.of(_AUTHORIZATION, "", "", causes)


def _invalid(field: str, value: str, message: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {message}", field)


def _info(spec: Object) -> tuple[RequestInfo, str]:
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        path = spec.get("nonResourceAttributes") or {}
        return RequestInfo(False, path.get("verb", "")), path.get("path", "")
    info = RequestInfo(
        is_resource=True,
        verb=attributes.get("verb", ""),
        group=attributes.get("group", ""),
        version=attributes.get("version", ""),
        namespace=attributes.get("namespace", ""),
        resource=attributes.get("resource", ""),
        name=attributes.get("name", ""),
        subresource=attributes.get("subresource", ""),
    )
    return info, ""
