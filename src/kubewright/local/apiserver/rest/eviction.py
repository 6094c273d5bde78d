"""pods/eviction: a deletion that PodDisruptionBudgets may forbid (policy/v1)."""

from __future__ import annotations

from msgspec.structs import replace

from kubewright.api.errors import BadRequest, Cause, Conflict, Invalid
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.exchange import Answer, encode_json
from kubewright.local.apiserver.options import (
    DeleteOptions,
    WriteOptions,
    parse_delete_options,
    parse_write_options,
)
from kubewright.local.apiserver.rest.binding import SUCCESS
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.delete import check_preconditions, delete_object
from kubewright.local.apiserver.rest.disruption_budget import (
    allows_unready,
    build_unprocessed,
    find_budgets,
    spend,
)
from kubewright.local.apiserver.rest.review import decode_review
from kubewright.local.apiserver.rest.update import Change, change_object
from kubewright.local.apiserver.storage import decode_json

_SEVERAL: Object = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    ),
    "code": 500,
}
_UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
_ATTEMPTS = 20


async def evict(call: Call) -> Answer:
    """Delete the pod unless that would break its disruption budget.

    The pod says in its condition DisruptionTarget that it was evicted. A pod that no budget
    protects at the moment is deleted only while it stays that way.

    Raises:
        TooManyRequests: its budget has no disruption left.
        Conflict: a precondition does not hold.
    """
    options = parse_write_options(call.request, "CreateOptions")
    eviction = decode_review(call, options, "policy", "Eviction")
    name = (eviction.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise BadRequest("name in URL does not match name in Eviction object", None)
    deletion = _read_deletion(call, eviction, options)
    pod = await _delete_unprotected(call, deletion)
    if pod is None:
        return call.answer_plain(201, encode_json(SUCCESS))
    budgets = find_budgets(call, pod)
    if len(budgets) > 1:
        return call.answer_plain(500, encode_json(_SEVERAL))
    if not budgets:
        await _delete(call, deletion)
    elif not _is_ready(pod) and allows_unready(budgets[0]):
        await _delete_unready(call, deletion, pod, budgets[0])
    else:
        await spend(call, budgets[0], pod, dry_run=deletion.dry_run)
        await _delete(call, deletion)
    return call.answer_plain(201, encode_json(SUCCESS))


def _read_deletion(call: Call, eviction: Object, options: WriteOptions) -> DeleteOptions:
    body = eviction.get("deleteOptions")
    if body and body.get(_UNSAFE):
        message = "Invalid value: true: can not be set for pod eviction, try after removing the "
        cause = Cause("FieldValueInvalid", f"{message}option", f"deleteOptions.{_UNSAFE}")
        raise Invalid.of("policy", "Eviction", call.name, [cause])
    request = replace(call.request, query={})
    deletion = parse_delete_options(request, body) if body else DeleteOptions()
    return replace(deletion, dry_run=deletion.dry_run or options.dry_run)


async def _delete_unprotected(call: Call, deletion: DeleteOptions) -> Object | None:
    """Delete a pod that serves nobody; return one that budgets protect."""
    for _ in range(_ATTEMPTS):
        pod = (await call.read()).object()
        if not _is_free(pod):
            return pod
        check_preconditions(call, deletion, pod)
        version = pod["metadata"]["resourceVersion"]
        # A pending pod may become ready in this moment, and be protected then.
        is_over = (pod.get("status") or {}).get("phase") != "Pending"
        guarded = deletion if is_over else replace(deletion, resource_version=version)
        try:
            await _delete(call, guarded)
        except Conflict:
            continue
        return None
    raise call.conflict()


def _is_free(pod: Object) -> bool:
    """Tell whether a pod serves nobody, so that no budget protects it."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    return ended or bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


async def _delete_unready(call: Call, deletion: DeleteOptions, pod: Object, budget: Object) -> None:
    """Delete a pod as long as it is not ready; it may have become so since it was read."""
    version = pod["metadata"]["resourceVersion"]
    try:
        await _delete(call, replace(deletion, resource_version=version))
    except Conflict:
        if deletion.resource_version is not None:
            raise
        raise build_unprocessed(budget["metadata"]["name"]) from None


async def _delete(call: Call, deletion: DeleteOptions) -> None:
    if not deletion.dry_run:
        version = await _mark(call, deletion)
        if deletion.resource_version is not None:
            deletion = replace(deletion, resource_version=version)
    await delete_object(call, deletion)


async def _mark(call: Call, deletion: DeleteOptions) -> str:
    """Say in the pod's status that it goes by an eviction; return its version after that."""
    now = format_time(call.backend.now())

    async def transform(pod: Object | None) -> Object:
        assert pod is not None  # it was just read
        check_preconditions(call, deletion, pod)
        status = pod.get("status") or {}
        pod["status"] = {**status, "conditions": _targeted(status.get("conditions") or [], now)}
        return pod

    change = Change(transform, WriteOptions(), subresource="status", tracked=True, ruled=True)
    raw, _ = await change_object(call, change)
    return str(decode_json(raw)["metadata"]["resourceVersion"])


def _targeted(conditions: list[Object], now: str) -> list[Object]:
    """Return the conditions of a pod with DisruptionTarget, in its place or at the end."""
    target: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    for index, condition in enumerate(conditions):
        if condition.get("type") == target["type"]:
            if condition.get("status") == "True":
                target["lastTransitionTime"] = condition.get("lastTransitionTime")
            return [*conditions[:index], target, *conditions[index + 1 :]]
    return [*conditions, target]
