"""A CronJob as its controller sees it, and the Jobs that it makes. Pure."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright.api import builtin
from kubewright.api.metadata import build_owner_reference
from kubewright.api.resource import Object
from kubewright.api.time import parse_time
from kubewright.local.controllers.workload import Workload

SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJob(Workload, frozen=True):
    """Typed reads of a decoded CronJob."""

    @property
    def schedule(self) -> str:
        """The schedule as it is written."""
        return str(self.spec.get("schedule") or "")

    @property
    def zone_name(self) -> str:
        """The name of the time zone; empty for that of the controller, which is UTC."""
        return str(self.spec.get("timeZone") or "")

    @property
    def policy(self) -> str:
        """What happens when a Job still runs while the next is due: Allow, Forbid or Replace."""
        return str(self.spec.get("concurrencyPolicy") or "Allow")

    @property
    def is_suspended(self) -> bool:
        """Tell whether no Job may be started now."""
        return bool(self.spec.get("suspend"))

    @property
    def starting_deadline(self) -> int | None:
        """How many seconds late a Job may be started; None for any."""
        seconds = self.spec.get("startingDeadlineSeconds")
        return None if seconds is None else int(seconds)

    @property
    def created(self) -> datetime:
        """When the CronJob was made: nothing was due before."""
        return parse_time(self.obj["metadata"]["creationTimestamp"])

    @property
    def last_schedule(self) -> datetime | None:
        """For when the last Job was made."""
        text = self.status.get("lastScheduleTime")
        return parse_time(text) if text else None

    def job_name(self, due: datetime) -> str:
        """Return the name of the Job for a time: it is made once, whoever tries again."""
        return f"{self.key.name}-{int(due.timestamp()) // 60}"


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by name; None where it is unknown."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def build_job(cron_job: CronJob, due: datetime, zone: tzinfo) -> Object:
    """Build the Job for a time, which it carries as an annotation in the CronJob's zone."""
    template = cron_job.spec["jobTemplate"]
    given = template.get("metadata") or {}
    metadata: Object = {
        "name": cron_job.job_name(due),
        "namespace": cron_job.key.namespace,
        "annotations": {
            **(given.get("annotations") or {}),
            SCHEDULED_TIMESTAMP: _write_local(due, zone),
        },
        "ownerReferences": [build_owner_reference(cron_job.obj)],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {
        "apiVersion": builtin.JOB.api_version,
        "kind": builtin.JOB.kind,
        "metadata": metadata,
        "spec": deepcopy(template.get("spec") or {}),
    }


def _write_local(moment: datetime, zone: tzinfo) -> str:
    text = moment.astimezone(zone).isoformat(timespec="seconds")
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def build_job_reference(job: Object) -> Object:
    """Build the entry of `status.active` for a Job."""
    metadata = job["metadata"]
    return {
        "kind": builtin.JOB.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": builtin.JOB.api_version,
        "resourceVersion": metadata["resourceVersion"],
    }
