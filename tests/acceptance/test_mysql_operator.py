"""The mysql operator, end to end: what its user does, asserting on data."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT, running_operator
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

CRD = ROOT / "operators/mysql/config/crd.yaml"


@pytest.fixture(autouse=True)
def mysql_operator(
    request: pytest.FixtureRequest, cluster: Cluster, admin: Kubectl, storage: None, tmp_path: Path
) -> Iterator[None]:
    """The operator, run as its user would, on a cluster that runs processes and has volumes."""
    if cluster.simulated:
        pytest.skip("needs processes in pods")
    if request.config.getoption("--cluster") == "whole":
        pytest.skip("no image of mysql is built for this cluster")
    admin("apply", "-f", str(CRD))
    admin("wait", "--for=condition=Established", "crd/mysqls.operators.example.com")
    with running_operator(cluster, "mysql_operator", tmp_path / "operator.log"):
        yield


def build_mysql(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "operators.example.com/v1alpha1",
        "kind": "MySQL",
        "metadata": {"name": name},
        "spec": {"databaseName": "myapp", "databaseUser": "myuser", "mysqlVersion": "8.0", **spec},
    }


def start(kubectl: Kubectl, name: str, **spec: Any) -> None:
    kubectl.apply(build_mysql(name, **spec))
    kubectl("wait", f"mysql/{name}", "--for=condition=Ready", "--timeout=240s")


def ask(kubectl: Kubectl, name: str, sql: str, *, code: int = 0) -> str:
    """Run SQL as the user, over the Service; the password goes through stdin alone."""
    data = kubectl.get("secret", f"mysql-secret-{name}")["data"]
    password = base64.b64decode(data["password"]).decode()
    script = "read -r MYSQL_PWD; export MYSQL_PWD; "
    script += f"exec mysql -h mysql-{name} -u myuser -NB --connect-timeout=10 myapp"
    target = f"deploy/mysql-{name}"
    result = subprocess.run(
        kubectl.command("exec", "-i", target, "--", "bash", "-c", script),
        input=f"{password}\n{sql}",
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=kubectl.environment(),
    )
    assert (result.returncode == 0) == (code == 0), result.stderr
    return (result.stdout + result.stderr).strip()


def run_job(kubectl: Kubectl, schedule: str, job: str) -> str:
    """Run a CronJob by hand to its end; return its log."""
    kubectl("create", "job", f"--from=cronjob/{schedule}", job)
    kubectl("wait", f"job/{job}", "--for=condition=complete", "--timeout=120s")
    return kubectl("logs", f"job/{job}")


def test_apply_gives_a_server_whose_user_has_just_its_rights(admin: Kubectl) -> None:
    start(admin, "shop")

    made = admin("get", "deployments,services,secrets,cronjobs,pvc", "-o", "name").split()
    assert {
        "deployment.apps/mysql-shop",
        "service/mysql-shop",
        "secret/mysql-secret-shop",
        "cronjob.batch/mysql-backup-shop",
        "persistentvolumeclaim/mysql-data-shop",
    } <= set(made)
    assert "shop" in admin("get", "mysqls")
    ask(admin, "shop", "CREATE TABLE t (w TEXT); INSERT INTO t VALUES ('grüße')")
    assert ask(admin, "shop", "SELECT w, CHAR_LENGTH(w) FROM t") == "grüße\t5"
    assert "denied" in ask(admin, "shop", "CREATE DATABASE other", code=1)
    assert "denied" in ask(admin, "shop", "SELECT * FROM mysql.user", code=1)
    assert "denied" in ask(admin, "shop", "CREATE DATABASE myappX", code=1)


def test_a_manual_backup_is_a_dump_that_can_be_restored(admin: Kubectl) -> None:
    start(admin, "kept")
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(500))
    ask(admin, "kept", f"CREATE TABLE t (i INT PRIMARY KEY, w TEXT); INSERT INTO t VALUES {rows}")
    ask(admin, "kept", "CREATE VIEW v AS SELECT COUNT(*) AS n FROM t")
    checksum = "SELECT COUNT(*), SUM(CRC32(CONCAT(i, w))) FROM t"
    written = ask(admin, "kept", checksum)
    assert "lastBackup" not in admin.get("mysql", "kept")["status"]

    assert "is complete" in run_job(admin, "mysql-backup-kept", "manual-backup")
    eventually(lambda: "lastBackup" in admin.get("mysql", "kept")["status"], "the backup told")
    ended = admin.get("job", "manual-backup")["status"]["completionTime"]
    assert admin.get("mysql", "kept")["status"]["lastBackup"] == ended

    ask(admin, "kept", "DROP VIEW v; DELETE FROM t WHERE i > 3")
    run_job(admin, "mysql-restore-kept", "back")
    assert ask(admin, "kept", checksum) == written
    assert ask(admin, "kept", "SELECT n FROM v") == "500"


def test_an_upgrade_begins_with_a_backup_and_there_is_no_way_back(admin: Kubectl) -> None:
    start(admin, "aged")
    ask(admin, "aged", "CREATE TABLE t (i INT); INSERT INTO t VALUES (7)")

    patch = '[{"op":"replace","path":"/spec/mysqlVersion","value":"%s"}]'
    admin("patch", "mysql", "aged", "--type=json", "-p", patch % "8.4")
    eventually(
        lambda: (
            admin.get("mysql", "aged")["status"].get("version") == "8.4"
            and admin.get("mysql", "aged")["status"]["ready"]
        ),
        "the new version",
        seconds=180,
    )
    assert "lastBackup" in admin.get("mysql", "aged")["status"]
    image = "-o=jsonpath={.spec.template.spec.containers[0].image}"
    assert admin("get", "deployment", "mysql-aged", image) == "mysql:8.4"
    assert ask(admin, "aged", "SELECT i FROM t") == "7"

    refused = admin("patch", "mysql", "aged", "--type=json", "-p", patch % "8.0", code=1)
    assert "a server cannot go back to an older version" in refused


def test_deletion_keeps_the_data_unless_asked_otherwise(admin: Kubectl) -> None:
    start(admin, "again")
    ask(admin, "again", "CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2)")
    assert admin.get("mysql", "again")["metadata"]["finalizers"]

    admin("delete", "mysql", "again", "--timeout=60s")
    eventually(lambda: not admin("get", "deploy,pods", "-o", "name"), "nothing that runs")
    start(admin, "again", deletionPolicy="Delete")
    assert ask(admin, "again", "SELECT COUNT(*) FROM t") == "2"

    admin("delete", "mysql", "again", "--timeout=60s")
    eventually(lambda: not admin("get", "pvc", "-o", "name"), "no claim that is left")


def test_no_password_is_in_a_command_a_log_or_an_environment(admin: Kubectl) -> None:
    start(admin, "quiet")
    run_job(admin, "mysql-backup-quiet", "once")
    data = admin.get("secret", "mysql-secret-quiet")["data"]
    passwords = [
        base64.b64decode(value).decode() for key, value in data.items() if "password" in key
    ]
    assert len(set(passwords)) == 4

    script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' ' '"
    seen = admin("exec", "deploy/mysql-quiet", "--", "bash", "-c", script, code=None)
    seen += admin("logs", "deploy/mysql-quiet") + admin("logs", "job/once")
    seen += admin("get", "deployment,cronjob,job,pod,configmap", "-o", "yaml")
    assert not [password for password in passwords if password in seen]
