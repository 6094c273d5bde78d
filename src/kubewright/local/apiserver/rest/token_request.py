"""serviceaccounts/token: a bound token for a ServiceAccount."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from kubewright.api.errors import BadRequest, Cause, Conflict, Invalid, NotFound
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.apply.apply import track_update
from kubewright.local.apiserver.builtin.definitions import schema_for
from kubewright.local.apiserver.exchange import Answer, encode_json
from kubewright.local.apiserver.field_error import invalid
from kubewright.local.apiserver.field_management import identify
from kubewright.local.apiserver.options import parse_write_options
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.review import decode_review
from kubewright.local.apiserver.rest.routes import Handler
from kubewright.local.apiserver.tokens import ISSUER, TokenIssuer

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_DEFINITION = "io.k8s.api.authentication.v1.TokenRequest"
_DEFAULT_SECONDS = 3600
_LEAST_SECONDS = 600
_MOST_SECONDS = 1 << 32


def build_token_handler(issuer: TokenIssuer) -> Handler:
    """Build the handler of POST …/serviceaccounts/NAME/token."""

    async def create_token(call: Call) -> Answer:
        options = parse_write_options(call.request, "CreateOptions")
        body = decode_review(call, options, _GROUP, _KIND)
        spec = body.get("spec") or {}
        account = (await call.read()).object()
        _check_name(call.name, (body.get("metadata") or {}).get("name") or "")
        seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
        _check_seconds(seconds)
        bound = _find_bound(call, spec.get("boundObjectRef"))
        audiences = spec.get("audiences") or []
        token, expires = issuer.issue(
            account,
            audiences or [ISSUER],
            timedelta(seconds=seconds),
            call.backend.new_uid(),
            bound,
        )
        metadata = account["metadata"]
        body["spec"] = {**spec, "expirationSeconds": seconds}
        empty = {"spec": {"audiences": None, "expirationSeconds": None, "boundObjectRef": None}}
        manager = identify(call, options, "token")
        tracked = track_update(
            None,
            {**body, "metadata": {}},
            schema=schema_for(_DEFINITION),
            manager=replace(manager, api_version=f"{_GROUP}/v1"),
            now=format_time(call.backend.now()),
            empty=empty | {"status": body.get("status")},
        )
        body["metadata"] = tracked["metadata"] | {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "creationTimestamp": format_time(call.backend.now()),
        }
        body["spec"] |= {
            "audiences": audiences or [ISSUER],
            "boundObjectRef": spec.get("boundObjectRef"),
        }
        body["status"] = {"token": token, "expirationTimestamp": format_time(expires)}
        return call.answer_plain(201, encode_json(body))

    return create_token


def _check_name(account: str, name: str) -> None:
    if name not in ("", account):
        detail = "must match the service account name if specified"
        raise Invalid.of(_GROUP, _KIND, account, [invalid("metadata.name", name, detail)])


def _check_seconds(seconds: int) -> None:
    message = ""
    if seconds < _LEAST_SECONDS:
        message = "may not specify a duration less than 10 minutes"
    elif seconds > _MOST_SECONDS:
        message = "may not specify a duration larger than 2^32 seconds"
    if message:
        cause = Cause(
            "FieldValueInvalid", f"Invalid value: {seconds}: {message}", "spec.expirationSeconds"
        )
        raise Invalid.of(_GROUP, _KIND, "", [cause])


def _find_bound(call: Call, reference: Object | None) -> tuple[str, str, str] | None:
    """Find the object that a token is to be bound to.

    Raises:
        BadRequest: tokens are not bound to such objects.
        NotFound: it is not there.
        Conflict: it has another UID.
    """
    if not reference:
        return None
    kinds = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
    plural = kinds.get((reference.get("apiVersion", ""), reference.get("kind", "")))
    if plural is None:
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        raise BadRequest(
            f"cannot bind token to object of type {group}/{version}, Kind={reference.get('kind')}",
            None,
        )
    name = reference.get("name") or ""
    storage = call.backend.storage_of("", "v1", plural)
    found = storage.read("" if plural == "nodes" else call.namespace, name)
    if found is None:
        raise NotFound.of("", plural, name)
    uid = found.meta().uid
    if reference.get("uid") and reference["uid"] != uid:
        raise Conflict.of(
            "",
            plural,
            name,
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
            f"record. The object might have been deleted and then recreated",
        )
    return reference["kind"], name, uid
