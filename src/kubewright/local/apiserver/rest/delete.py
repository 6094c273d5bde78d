"""DELETE of one object and of a collection."""

from __future__ import annotations

from kubewright.api.errors import BadRequest, Conflict, NotFound
from kubewright.api.resource import Object
from kubewright.local.apiserver.admission import Attributes
from kubewright.local.apiserver.bodies import MalformedBody, parse_body
from kubewright.local.apiserver.deletion import (
    JOB_WARNING,
    is_orphaning,
    plan_deletion,
    returns_object,
)
from kubewright.local.apiserver.exchange import Response, encode_json
from kubewright.local.apiserver.options import (
    DeleteOptions,
    parse_delete_options,
    parse_list_options,
)
from kubewright.local.apiserver.rest.call import MODIFIED, Call
from kubewright.local.apiserver.rest.list import answer_list, check_fields, read_page
from kubewright.local.apiserver.storage import Stored
from kubewright.local.store import KeyMissing, RevisionMismatch

_ATTEMPTS = 8


async def delete(call: Call) -> Response:
    """Delete the object, or begin to.

    The answer is a Status where it is gone at once, and the object where it stays for its
    finalizers or its grace period.
    """
    options = read_delete_options(call)
    await call.read()
    obj, gone = await delete_object(call, options)
    if gone and not returns_object(call.kind):
        return call.answer_plain(200, encode_json(_success(call, obj)))
    return call.answer_object(200, obj)


def read_delete_options(call: Call) -> DeleteOptions:
    """Read the options of a deletion from the body, or else from the query.

    Raises:
        BadRequest: the body cannot be read.
        Invalid: options are unknown or contradict each other.
    """
    body: Object | None = None
    if call.request.body:
        from kubewright.local.apiserver import protobuf_body

        try:
            value = parse_body(call.request, protobuf_body.decode_options).value
        except MalformedBody as error:
            raise BadRequest(
                f"couldn't get version/kind; json parse error: {error}", None
            ) from None
        if not isinstance(value, dict):
            raise BadRequest("couldn't get version/kind; json parse error: not an object", None)
        if value.get("kind") not in (None, "", "DeleteOptions"):
            version = value.get("apiVersion") or ""
            raise BadRequest(
                f'no kind "{value["kind"]}" is registered for version "{version}" in scheme '
                '"pkg/runtime/scheme.go:111"',
                None,
            )
        body = value
    return parse_delete_options(call.request, body)


async def delete_object(call: Call, options: DeleteOptions) -> tuple[Object, bool]:
    """Delete the object that the call names; return its last state and whether it is gone.

    Raises:
        NotFound: it is not there.
        Conflict: a precondition does not hold.
        APIError: admission refuses.
    """
    for _ in range(_ATTEMPTS):
        current = await call.read()
        obj = current.object()
        check_preconditions(call, options, obj)
        await _admit(call, options, obj)
        try:
            return await _carry_out(call, options, current, obj)
        except (RevisionMismatch, KeyMissing):
            continue
    raise call.conflict(MODIFIED)


async def _carry_out(
    call: Call, options: DeleteOptions, current: Stored, obj: Object
) -> tuple[Object, bool]:
    _warn(call, options, obj)
    plan = plan_deletion(call.kind, obj, options, call.backend.now())
    if plan.obj is not None:
        obj = plan.obj
        if not options.dry_run:
            current = await call.storage.replace(current, obj)
    if plan.remove and not options.dry_run:
        obj["metadata"]["resourceVersion"] = str(call.storage.delete(current))
    return obj, plan.remove


def _warn(call: Call, options: DeleteOptions, obj: Object) -> None:
    chosen = options.propagation_policy is not None or options.orphan_dependents is not None
    if is_orphaning(call.kind) and not chosen and JOB_WARNING not in call.request.warnings:
        call.request.warnings.append(JOB_WARNING)


async def _admit(call: Call, options: DeleteOptions, obj: Object) -> None:
    attributes = Attributes(
        operation="DELETE",
        kind=call.kind,
        namespace=call.namespace,
        name=call.name,
        obj=None,
        old=obj,
        user=call.request.user,
        dry_run=options.dry_run,
        options=_shown(options),
        warnings=call.request.warnings,
    )
    await call.admission.mutate(attributes)
    await call.admission.validate(attributes)


def _shown(options: DeleteOptions) -> Object:
    """Return a deletion's options as admission webhooks see them."""
    shown: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        shown["dryRun"] = ["All"]
    if options.grace_period_seconds is not None:
        shown["gracePeriodSeconds"] = options.grace_period_seconds
    if options.propagation_policy is not None:
        shown["propagationPolicy"] = options.propagation_policy
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    if given := {key: value for key, value in preconditions.items() if value is not None}:
        shown["preconditions"] = given
    return shown


def check_preconditions(call: Call, options: DeleteOptions, obj: Object) -> None:
    """Check that the object is the one that a deletion means.

    Raises:
        Conflict: it has another UID or resourceVersion.
    """
    metadata = obj["metadata"]
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    resource = call.kind.resource
    if options.uid is not None and options.uid != uid:
        raise Conflict.of(
            resource.group,
            resource.kind,
            call.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({uid}). The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != version:
        raise Conflict.of(
            resource.group,
            resource.kind,
            call.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified",
        )


def _success(call: Call, obj: Object) -> Object:
    resource, metadata = call.kind.resource, obj["metadata"]
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": metadata.get("uid", ""),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


async def delete_collection(call: Call) -> Response:
    """Delete all selected objects and answer with the list of them as they were before."""
    options = read_delete_options(call)
    selection = parse_list_options(call.request, watch=False)
    check_fields(call, selection)
    page = await read_page(call, selection)
    for raw in page.items:
        one = call.named(raw)
        try:
            await delete_object(one, options)
        except NotFound:
            # Someone else deleted it meanwhile, which is what was wanted.
            continue
    return answer_list(call, page)
