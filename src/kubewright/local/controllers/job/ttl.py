"""Deletes Jobs some time after they have finished (`ttlSecondsAfterFinished`, KEP-592)."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubewright.api import builtin
from kubewright.api.errors import NotFound
from kubewright.api.resource import NamespacedName, Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.job.job import Job
from kubewright.runtime.context import Context
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result

NAME = "ttl-after-finished-controller"


def build_ttl_controller() -> Controller:
    """Build the controller that deletes finished Jobs, and their pods before them."""
    return Controller(NAME, builtin.JOB, _reconcile)


def find_expiry(obj: Object) -> datetime | None:
    """Return when a Job is to be deleted; None while it runs, or is to be kept."""
    job = Job(obj)
    condition, ttl = job.finished_condition, job.spec.get("ttlSecondsAfterFinished")
    if ttl is None or condition is None or job.is_deleting:
        return None
    ended = condition.get("lastTransitionTime")
    return parse_time(ended) + timedelta(seconds=int(ttl)) if ended else None


async def _reconcile(key: NamespacedName, ctx: Context) -> Result | None:
    job = ctx.get(builtin.JOB, key)
    if job is None or (wait := _time_left(job, ctx)) is None:
        return None
    if wait > timedelta():
        return Result(after=wait)
    # Somebody may have prolonged it just now, so the server is asked before the Job is destroyed.
    try:
        live = await ctx.client.get(builtin.JOB, key.name, namespace=key.namespace)
        if (wait := _time_left(live, ctx)) is None:
            return None
        if wait > timedelta():
            return Result(after=wait)
        await ctx.client.delete(
            builtin.JOB,
            key.name,
            namespace=key.namespace,
            uid=live["metadata"]["uid"],
            resource_version=live["metadata"]["resourceVersion"],
            propagation="Foreground",
        )
    except NotFound:
        return None
    return None


def _time_left(job: Object, ctx: Context) -> timedelta | None:
    expiry = find_expiry(job)
    return None if expiry is None else expiry - ctx.clock.now()
