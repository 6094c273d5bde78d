"""What Jobs tell of backups; what runs them."""

from __future__ import annotations

import kubewright as kw
from database_objects import BackupRecord, build_backup_schedule, build_job_template, read_jobs


def build_job_status(kind: str, at: str, message: str = "") -> kw.Object:
    condition = {"type": kind, "status": "True", "lastTransitionTime": at, "message": message}
    status: kw.Object = {"conditions": [condition]}
    if kind == "Complete":
        status["completionTime"] = at
    return {"metadata": {"name": at}, "status": status}


def test_the_newest_jobs_count_and_what_is_gone_is_remembered() -> None:
    jobs = [
        build_job_status("Complete", "2026-01-02T00:00:00Z"),
        build_job_status("Complete", "2026-01-01T00:00:00Z"),
        build_job_status("Failed", "2026-01-03T00:00:00Z", "disk full"),
        {"metadata": {"name": "running"}, "status": {"active": 1}},
    ]

    record = read_jobs(jobs, BackupRecord())

    assert record == BackupRecord("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "disk full")
    assert read_jobs([], record) == record
    assert read_jobs(jobs[1:2], record) == record


def test_without_a_schedule_a_cron_job_is_suspended() -> None:
    by_hand = build_backup_schedule("restore", {}, "", {})["spec"]
    nightly = build_backup_schedule("backup", {}, "0 2 * * *", {})["spec"]

    assert by_hand["suspend"] is True
    assert (nightly["suspend"], nightly["schedule"]) == (False, "0 2 * * *")
    assert nightly["timeZone"] == "Etc/UTC"


def test_pods_of_jobs_satisfy_the_restricted_level_and_keep_what_is_said() -> None:
    pod = {"containers": [{"name": "c", "securityContext": {"readOnlyRootFilesystem": True}}]}
    template = build_job_template({"a": "b"}, pod, user=999, retries=2, deadline=60)

    spec = template["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 999
    assert spec["restartPolicy"] == "Never"
    security = spec["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert template["metadata"] == template["spec"]["template"]["metadata"]
