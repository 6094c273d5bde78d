"""pods/eviction: a deletion that PodDisruptionBudgets may forbid (policy/v1)."""

from __future__ import annotations

from msgspec.structs import replace

from kubewright.api.errors import BadRequest, Cause, InternalError, StatusDetails, TooManyRequests
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
from kubewright.local.apiserver.rest.delete import delete_object
from kubewright.local.apiserver.rest.review import decode_review
from kubewright.local.apiserver.rest.update import Change, change_object
from kubewright.local.apiserver.selectors import build_label_selector
from kubewright.local.apiserver.storage import Stored, decode_json

_VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(call: Call) -> Answer:
    """Delete the pod unless that would break its disruption budget."""
    options = parse_write_options(call.request, "CreateOptions")
    eviction = decode_review(call, options, "policy", "Eviction")
    name = (eviction.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise BadRequest("name in URL does not match name in Eviction object", None)
    deletion = _deletion(call, eviction, options)
    pod = (await call.read()).object()
    if not _is_free(pod):
        await _spend(call, pod, deletion.dry_run)
    await delete_object(call, deletion)
    return call.answer_plain(201, encode_json(SUCCESS))


def _deletion(call: Call, eviction: Object, options: WriteOptions) -> DeleteOptions:
    body = eviction.get("deleteOptions")
    request = replace(call.request, query={})
    deletion = parse_delete_options(request, body) if body else DeleteOptions()
    return replace(deletion, dry_run=deletion.dry_run or options.dry_run)


def _is_free(pod: Object) -> bool:
    """Tell whether a pod serves nobody, so that no budget protects it."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    return ended or bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


async def _spend(call: Call, pod: Object, dry_run: bool) -> None:
    """Take one disruption from the pod's budget.

    Raises:
        TooManyRequests: there is none left.
        InternalError: several budgets claim the pod.
    """
    budgets = _find_budgets(call, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise InternalError(
            "Internal error occurred: This pod has more than one PodDisruptionBudget, which the "
            "eviction subresource does not support."
        )
    budget = budgets[0].object()
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    if not _is_ready(pod) and (policy == "AlwaysAllow" or (healthy >= desired and desired > 0)):
        return
    _check_budget(budget)
    if not dry_run:
        await _count(call, budget, pod)


def _find_budgets(call: Call, pod: Object) -> list[Stored]:
    storage = call.backend.storage_of("policy", "v1", "poddisruptionbudgets")
    labels = pod["metadata"].get("labels") or {}
    found: list[Stored] = []
    for item in call.backend.store.list(storage.scope(call.namespace)).items:
        spec = decode_json(item.value).get("spec") or {}
        if "selector" in spec and build_label_selector(spec["selector"]).matches(labels):
            found.append(storage.view(item.key, item.version))
    return found


def _check_budget(budget: Object) -> None:
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    observed = status.get("observedGeneration", 0)
    if observed < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _refused(message, 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed > 0:
        return
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        message = (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    else:
        message = f"The disruption budget {name} does not allow evicting pods currently"
    raise _refused(message, 0)


def _refused(message: str, retry_after: int) -> TooManyRequests:
    cause = Cause("DisruptionBudget", message)
    return TooManyRequests(
        _VIOLATION, StatusDetails(causes=(cause,), retry_after_seconds=retry_after)
    )


async def _count(call: Call, budget: Object, pod: Object) -> None:
    kind = call.backend.registry.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None  # it was just read
    info = replace(call.info, name=budget["metadata"]["name"])
    own = replace(call, kind=kind, storage=call.backend.storage(kind), info=info)
    now = format_time(call.backend.now())

    async def transform(live: Object | None) -> Object:
        assert live is not None  # a status write creates nothing
        _check_budget(live)
        status = live["status"] = dict(live.get("status") or {})
        status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
        disrupted = status.get("disruptedPods") or {}
        status["disruptedPods"] = {**disrupted, pod["metadata"]["name"]: now}
        return live

    await change_object(own, Change(transform, WriteOptions(), subresource="status"))
