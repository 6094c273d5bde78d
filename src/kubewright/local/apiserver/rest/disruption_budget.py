"""What the eviction of a pod takes from its PodDisruptionBudget (policy/v1)."""

from __future__ import annotations

from msgspec.structs import replace

from kubewright.api.conditions import Condition, find_condition, set_condition
from kubewright.api.errors import APIError, Cause, Forbidden, StatusDetails, TooManyRequests
from kubewright.api.resource import Object
from kubewright.api.time import format_time
from kubewright.local.apiserver.options import WriteOptions
from kubewright.local.apiserver.rest.call import Call
from kubewright.local.apiserver.rest.update import Change, change_object
from kubewright.local.apiserver.selectors import build_label_selector
from kubewright.local.apiserver.storage import decode_json

_VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
_MOST_PENDING = 2000
_PATIENCE = 10


def find_budgets(call: Call, pod: Object) -> list[Object]:
    """Return the budgets of the pod's namespace that select it."""
    storage = call.backend.storage_of("policy", "v1", "poddisruptionbudgets")
    labels = pod["metadata"].get("labels") or {}
    found: list[Object] = []
    for item in call.backend.store.list(storage.scope(call.namespace)).items:
        spec = decode_json(item.value).get("spec") or {}
        if "selector" in spec and build_label_selector(spec["selector"]).matches(labels):
            found.append(storage.view(item.key, item.version).object())
    return found


def allows_unready(budget: Object) -> bool:
    """Tell whether a pod that is not ready may go without being counted.

    Such a pod serves nobody. Unless the policy is AlwaysAllow, it may go only while the others are
    enough (KEP-3017).
    """
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= desired > 0)


async def spend(call: Call, budget: Object, pod: Object, *, dry_run: bool) -> None:
    """Take one disruption from a budget, and announce the pod's deletion in it.

    Raises:
        TooManyRequests: there is none left, or the budget's controller has not seen its spec.
        Forbidden: the status of the budget cannot be right.
    """
    check_budget(budget)
    if not dry_run:
        await _count(call, budget, pod)


def check_budget(budget: Object) -> None:
    """Check that a budget has a disruption left."""
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise build_unprocessed(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        problem = "pdb disruptions allowed is negative"
        raise _build_forbidden(name, problem, problem)
    if len(status.get("disruptedPods") or {}) > _MOST_PENDING:
        raise _build_forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        )
    if allowed == 0:
        raise _build_refusal(_explain(name, status), 0)


def build_unprocessed(name: str) -> APIError:
    """Build the answer while a budget's controller must look again."""
    message = f"The disruption budget {name} is still being processed by the server."
    return _build_refusal(message, _PATIENCE)


def _explain(name: str, status: Object) -> str:
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    condition = find_condition(status.get("conditions") or (), "DisruptionAllowed") or {}
    said = (condition.get("message") or "") if condition.get("status") == "False" else ""
    reason = condition.get("reason")
    refusal = f"The disruption budget {name} does not allow evicting pods currently"
    if said and reason == "SyncFailed":
        # What was counted before the failure says nothing of now.
        return f"{refusal} because it failed sync: {said}"
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    return f"{refusal} ({reason}): {said}" if said else refusal


def _build_refusal(message: str, retry_after: int) -> TooManyRequests:
    cause = Cause("DisruptionBudget", message)
    return TooManyRequests(
        _VIOLATION, StatusDetails(causes=(cause,), retry_after_seconds=retry_after)
    )


def _build_forbidden(name: str, problem: str, told: str) -> Forbidden:
    message = f"The disruption budget {name} does not allow evicting pods currently: {told}"
    return Forbidden(
        f'poddisruptionbudget.policy "{name}" is forbidden: {problem}',
        StatusDetails(
            name=name,
            group="policy",
            kind="poddisruptionbudget",
            causes=(Cause("DisruptionBudget", message),),
        ),
    )


async def _count(call: Call, budget: Object, pod: Object) -> None:
    kind = call.backend.registry.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None  # it was just read
    info = replace(call.info, name=budget["metadata"]["name"])
    own = replace(call, kind=kind, storage=call.backend.storage(kind), info=info)
    now = format_time(call.backend.now())

    async def transform(live: Object | None) -> Object:
        assert live is not None  # a status write creates nothing
        check_budget(live)
        live["status"] = _spent(live.get("status") or {}, pod["metadata"]["name"], now)
        return live

    await change_object(own, Change(transform, WriteOptions(), subresource="status"))


def _spent(status: Object, pod: str, now: str) -> Object:
    """Return the status of a budget with one disruption less."""
    allowed = status.get("disruptionsAllowed", 0) - 1
    announced = {**(status.get("disruptedPods") or {}), pod: now}
    spent = {**status, "disruptionsAllowed": allowed, "disruptedPods": announced}
    if not allowed:
        generation = status.get("observedGeneration")
        condition = Condition("DisruptionAllowed", "False", "InsufficientPods")
        spent["conditions"] = set_condition(
            status.get("conditions") or (), condition, now=now, generation=generation
        )
    return spent
