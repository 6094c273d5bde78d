"""What is built for a MySQL, and what its status says, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kubewright as kw
from mysql_operator.backup import TARGET
from mysql_operator.models import MySQL, MySQLSpec, MySQLStatus, compare_versions
from mysql_operator.operator import build_children, build_status, check_version, operator
from mysql_operator.server import build_deployment, build_labels, build_selector

CRD = Path(__file__).resolve().parents[1] / "config" / "crd.yaml"


def build_mysql(*, status: MySQLStatus | None = None, **spec: Any) -> MySQL:
    return MySQL(
        metadata=kw.ObjectMeta(name="shop", namespace="ns", uid="u"),
        spec=MySQLSpec(**spec),
        status=status,
    )


def children_of(db: MySQL) -> dict[str, kw.Object]:
    return {f"{child['kind']}/{child['metadata']['name']}": child for child in build_children(db)}


def image_of(deployment: kw.Object) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def build_job(kind: str, at: str, *, target: str = "", message: str = "") -> kw.Object:
    condition = {"type": kind, "status": "True", "lastTransitionTime": at, "message": message}
    status: kw.Object = {"conditions": [condition]}
    if kind == "Complete":
        status["completionTime"] = at
    labels = {TARGET: target} if target else {}
    return {"metadata": {"name": at, "labels": labels}, "status": status}


def test_generated_crd_is_up_to_date() -> None:
    """`make generate` writes it; users apply it."""
    assert list(yaml.safe_load_all(CRD.read_text())) == operator.crds()


def test_the_objects_have_the_names_that_users_know() -> None:
    assert set(children_of(build_mysql())) == {
        "ConfigMap/mysql-scripts-shop",
        "Service/mysql-shop",
        "PersistentVolumeClaim/mysql-data-shop",
        "PersistentVolumeClaim/mysql-backups-shop",
        "Deployment/mysql-shop",
        "CronJob/mysql-backup-shop",
        "CronJob/mysql-restore-shop",
    }


def test_without_a_schedule_backups_are_made_by_hand() -> None:
    by_hand, nightly = build_mysql(), build_mysql(backup_schedule="0 2 * * *")

    assert children_of(by_hand)["CronJob/mysql-backup-shop"]["spec"]["suspend"] is True
    spec = children_of(nightly)["CronJob/mysql-backup-shop"]["spec"]
    assert (spec["suspend"], spec["schedule"], spec["timeZone"]) == (False, "0 2 * * *", "Etc/UTC")


def test_another_version_waits_for_its_backup() -> None:
    running = MySQLStatus(version="8.0")
    db = build_mysql(mysql_version="8.4", status=running)
    children = children_of(db)
    assert image_of(children["Deployment/mysql-shop"]) == "mysql:8.0"
    assert "Job/mysql-upgrade-shop-8-4" in children

    waiting = build_status(db, kw.Children([], lambda resource, labels: []))
    assert (waiting.version, waiting.phase) == ("8.0", "BackingUp")
    failed = build_job("Failed", "2026-01-01T00:00:00Z", target="8.4")
    other = build_job("Complete", "2026-01-01T00:00:00Z", target="8.1")
    still = build_status(db, kw.Children([], lambda resource, labels: [failed, other]))
    assert still.version == "8.0"
    done = build_job("Complete", "2026-01-02T00:00:00Z", target="8.4")
    status = build_status(db, kw.Children([], lambda resource, labels: [done]))
    assert (status.version, status.last_backup) == ("8.4", "2026-01-02T00:00:00Z")


def test_the_status_is_ready_when_the_pod_of_the_version_is() -> None:
    db = build_mysql(status=MySQLStatus(version="8.0"))
    counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "observedGeneration": 1}
    live = build_deployment(db, "8.0") | {"status": counts}
    live["metadata"]["generation"] = 1

    status = build_status(db, kw.Children([live], lambda resource, labels: []))

    assert (status.ready, status.phase) == (True, "Running")
    old = build_deployment(db, "5.7") | {"status": counts}
    old["metadata"]["generation"] = 1
    assert not build_status(db, kw.Children([old], lambda resource, labels: [])).ready


@pytest.mark.parametrize(
    ("running", "wanted", "is_refused"),
    [("", "8.0", False), ("8.0", "8.4", False), ("8.10", "8.9", True), ("9.7", "8.4", True)],
)
def test_what_has_run_on_the_volume_decides(running: str, wanted: str, is_refused: bool) -> None:
    db = build_mysql(mysql_version=wanted, status=MySQLStatus(version=running))
    if not is_refused:
        check_version(db, None)
        return
    with pytest.raises(ValueError, match=f"{wanted} is older than {running}"):
        check_version(db, None)


def test_versions_are_numbers() -> None:
    assert compare_versions("8.10") > compare_versions("8.9.1")


def test_the_pods_of_jobs_are_no_servers() -> None:
    db = build_mysql()
    assert build_selector(db).items() <= build_labels(db).items()
    for component in ("backup", "restore"):
        assert not build_selector(db).items() <= build_labels(db, component).items()


def test_every_pod_satisfies_the_restricted_level() -> None:
    children = children_of(build_mysql()).values()
    pods = [c["spec"]["template"]["spec"] for c in children if c["kind"] == "Deployment"]
    pods += [
        c["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for c in children
        if c["kind"] == "CronJob"
    ]
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "secretKeyRef" not in str(children)
