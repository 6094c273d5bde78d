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
from tests.acceptance.user_objects import find_user_object

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


def build_cluster(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "mysql.example.com/v1",
        "kind": "MySQLCluster",
        "metadata": {"name": name},
        "spec": {"version": "8.4", **spec},
    }


def wait_members(kubectl: Kubectl, name: str, count: int) -> None:
    """Wait until as many members serve as were asked for last."""

    def is_there() -> bool:
        found = kubectl.get("mysqlcluster", name)
        status = found.get("status") or {}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and (status["phase"], status["replicas"]) == ("Running", f"{count}/{count}")

    eventually(is_there, f"{count} members of {name}", seconds=240)


def ask_member(kubectl: Kubectl, name: str, member: int, sql: str, host: str = "127.0.0.1") -> str:
    """Run SQL as the cluster's user in the pod of a member."""
    data = kubectl.get("secret", f"{name}-credentials")["data"]
    password = base64.b64decode(data["password"]).decode()
    script = f"read -r MYSQL_PWD; export MYSQL_PWD; exec mysql -h {host} -u app -NB app"
    result = subprocess.run(
        kubectl.command("exec", "-i", f"{name}-{member}", "--", "bash", "-c", script),
        input=f"{password}\n{sql}",
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=kubectl.environment(),
    )
    return (result.stdout + result.stderr).strip()


def test_the_members_of_a_cluster_really_replicate(admin: Kubectl) -> None:
    admin.apply(build_cluster("big", replicas=3))
    wait_members(admin, "big", 3)
    status = admin.get("mysqlcluster", "big")["status"]
    assert (status["storageProvisioned"], status["replication"]) == (True, "asynchronous")

    ask_member(admin, "big", 1, "CREATE TABLE t (i INT PRIMARY KEY)", host="big")
    ask_member(admin, "big", 1, "INSERT INTO t VALUES (1), (2), (3)", host="big")
    for member in (1, 2):
        eventually(
            lambda member=member: (  # type: ignore[misc]  # the loop's value, not the last one
                ask_member(admin, "big", member, "SELECT COUNT(*), @@super_read_only FROM t")
                == "3\t1"
            ),
            f"the rows in member {member}",
        )
    refused = ask_member(admin, "big", 0, "INSERT INTO t VALUES (9)", host="big-ro")
    assert "--read-only option" in refused

    admin("delete", "pod", "big-0", "big-1", "--grace-period=0", "--force")
    eventually(
        lambda: ask_member(admin, "big", 2, "SELECT COUNT(*) FROM t", host="big") == "3",
        "the primary with its data",
        seconds=120,
    )


def test_a_cluster_scales_both_ways_and_is_restored(admin: Kubectl) -> None:
    admin.apply(build_cluster("sized"))
    wait_members(admin, "sized", 1)
    ask_member(admin, "sized", 0, "CREATE TABLE t AS SELECT 7 AS i")
    for count in (3, 1, 2):
        admin("scale", "mysqlcluster/sized", f"--replicas={count}")
        wait_members(admin, "sized", count)
        assert ask_member(admin, "sized", count - 1, "SELECT i FROM t") == "7"

    run_job(admin, "sized-backup", "once")
    ask_member(admin, "sized", 0, "DELETE FROM t")
    run_job(admin, "sized-restore", "back")
    assert ask_member(admin, "sized", 0, "SELECT i FROM t") == "7"


def test_a_finalizer_of_the_users_is_honoured(admin: Kubectl) -> None:
    cluster = build_cluster("held")
    cluster["metadata"]["finalizers"] = ["mysql.example.com/finalizer"]
    admin.apply(cluster)
    wait_members(admin, "held", 1)

    admin("delete", "mysqlcluster", "held", "--wait=false")
    eventually(
        lambda: "deletionTimestamp" in admin.get("mysqlcluster", "held")["metadata"], "the request"
    )
    assert ask_member(admin, "held", 0, "SELECT 1") == "1"
    admin("patch", "mysqlcluster", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    admin("wait", "--for=delete", "pod/held-0", "--timeout=90s")
    assert "Bound" in admin("get", "pvc", "data-held-0")


@pytest.mark.parametrize(
    "file", ["prod-cluster.yaml", "storage-parameters.yaml", "cloud-config.yaml"]
)
def test_the_files_of_users_apply_as_they_are(admin: Kubectl, file: str) -> None:
    path = find_user_object(f"mysqlcluster/{file}")

    applied = admin("apply", "--dry-run=server", "-f", str(path))

    assert "created (server dry run)" in applied
