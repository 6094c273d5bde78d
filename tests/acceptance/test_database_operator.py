"""The postgres operator, end to end: what its user does, asserting on data."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clusters import Cluster
from tests.acceptance.conftest import ROOT, running_operator
from tests.acceptance.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

CRD = ROOT / "operators/postgres/config/crd.yaml"


@pytest.fixture(autouse=True)
def database_operator(
    cluster: Cluster, admin: Kubectl, storage: None, tmp_path: Path
) -> Iterator[None]:
    """The operator, run as its user would, on a cluster that runs processes and has volumes."""
    if cluster.simulated:
        pytest.skip("needs processes in pods")
    admin("apply", "-f", str(CRD))
    admin("wait", "--for=condition=Established", "crd/databases.example.com")
    with running_operator(cluster, "postgres_operator", tmp_path / "operator.log"):
        yield


def build_database(name: str, size: str = "small", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": name},
        "spec": {"version": "15", "size": size, **spec},
    }


def wait_ready(kubectl: Kubectl, name: str, instances: int, seconds: int = 240) -> Any:
    """Wait until the operator has seen the last spec and all its instances serve."""

    def is_there() -> bool:
        database = kubectl.get("database", name)
        status = database.get("status") or {}
        seen = status.get("observedGeneration") == database["metadata"]["generation"]
        return seen and status.get("ready") is True and status["readyReplicas"] == instances

    eventually(is_there, f"{name} with {instances} instances", seconds)
    return kubectl.get("database", name)


class Client:
    """An application: it knows what is in the Secret NAME-app, and asks from another pod."""

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.kubectl = kubectl
        self.name = name
        data = kubectl.get("secret", f"{name}-app")["data"]
        self.access = {key: base64.b64decode(value).decode() for key, value in data.items()}

    def run(self, sql: str, *, host: str = "", pod: str = "") -> subprocess.CompletedProcess[str]:
        """Run SQL by the Service, or by another host, with psql in a pod."""
        address = host or self.access["host"]
        uri = self.access["uri"].replace(self.access["host"], address)
        uri += "?connect_timeout=5"
        command = ("exec", "-i", pod or f"{self.name}-0", "--", "psql", uri, "-XAtq", "-f", "-")
        return subprocess.run(
            self.kubectl.command(*command),
            input=sql,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self.kubectl.environment(),
        )

    def ask(self, sql: str, *, host: str = "", pod: str = "") -> str:
        """Run SQL that succeeds, and return what it prints."""
        result = self.run(sql, host=host, pod=pod)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def fill(self, rows: int = 1000) -> str:
        """Make a table; return its checksum."""
        self.ask(
            f"CREATE TABLE t AS SELECT g AS i, md5(g::text) AS w FROM generate_series(1, {rows}) g"
        )
        return self.checksum()

    def checksum(self, **where: str) -> str:
        """Return the number of rows and the checksum of the table."""
        return self.ask("SELECT count(*), md5(string_agg(w, ',' ORDER BY i)) FROM t", **where)


def run_job(kubectl: Kubectl, schedule: str, job: str) -> str:
    """Run a CronJob by hand to its end; return its log."""
    kubectl("create", "job", f"--from=cronjob/{schedule}", job)
    kubectl("wait", f"job/{job}", "--for=condition=complete", "--timeout=120s")
    return kubectl("logs", f"job/{job}")


def test_apply_gives_a_database_that_its_owner_uses(admin: Kubectl) -> None:
    admin.apply(build_database("shop", database="orders", owner="clerk"))
    status = wait_ready(admin, "shop", 1)["status"]

    host = f"shop.{admin.namespace}.svc.cluster.local"
    assert (status["endpoint"], status["version"], status["phase"]) == (host, "15", "Running")
    client = Client(admin, "shop")
    assert client.access["host"] == host
    assert client.ask("SELECT current_user, current_database()") == "clerk|orders"
    client.fill()
    refused = client.run("CREATE ROLE other")
    assert "permission denied" in refused.stderr
    without = client.run("SELECT 1", host=f"wrong@{host}")
    assert "password authentication failed" in without.stderr or without.returncode != 0
    row = admin("get", "db", "shop", "--no-headers").split()
    assert row[:4] == ["shop", "small", "15", "1"]


def test_the_replicas_really_stream_and_serve_reads_alone(admin: Kubectl) -> None:
    admin.apply(build_database("big", "large"))
    status = wait_ready(admin, "big", 3)["status"]
    client = Client(admin, "big")
    written = client.fill()

    read_only = status["readOnlyEndpoint"]
    for pod in ("big-1", "big-2"):
        eventually(
            lambda pod=pod: client.checksum(host="127.0.0.1", pod=pod) == written,  # type: ignore[misc]  # mypy takes the default for an argument of the caller's
            f"the same rows in {pod}",
        )
    assert client.ask("SELECT pg_is_in_recovery()", host=read_only) == "t"
    assert "read-only transaction" in client.run("CREATE TABLE no(i int)", host=read_only).stderr
    assert client.ask("SELECT pg_is_in_recovery()") == "f"


def test_rescaling_keeps_the_data(admin: Kubectl) -> None:
    admin.apply(build_database("sized", "medium"))
    wait_ready(admin, "sized", 2)
    client = Client(admin, "sized")
    written = client.fill()

    for size, instances in (("small", 1), ("large", 3)):
        patch = f'{{"spec":{{"size":"{size}"}}}}'
        admin("patch", "database", "sized", "-p", patch, "--type=merge")
        wait_ready(admin, "sized", instances)
        assert client.checksum() == written
    eventually(
        lambda: client.checksum(host="127.0.0.1", pod="sized-2") == written,
        "a new copy of all rows",
    )


def test_a_backup_is_restored_by_one_command(admin: Kubectl) -> None:
    admin.apply(build_database("kept", backup_enabled=True, backup_retention=1))
    wait_ready(admin, "kept", 1)
    client = Client(admin, "kept")
    written = client.fill()
    assert "lastSuccessfulBackup" not in admin.get("database", "kept")["status"]

    assert "is complete" in run_job(admin, "kept-backup", "first")
    eventually(
        lambda: "lastSuccessfulBackup" in admin.get("database", "kept")["status"],
        "the end of the backup in the status",
    )
    job = admin.get("job", "first")
    last = admin.get("database", "kept")["status"]["lastSuccessfulBackup"]
    assert last == job["status"]["completionTime"]

    client.ask("DELETE FROM t WHERE i > 10; CREATE TABLE later(i int)")
    assert "removing" in run_job(admin, "kept-backup", "second")
    client.ask("DROP TABLE t")
    run_job(admin, "kept-restore", "back")
    assert client.ask("SELECT count(*) FROM t") == "10"
    assert written != client.checksum()


def test_a_backup_that_fails_half_way_is_none(admin: Kubectl) -> None:
    admin.apply(build_database("torn", backup_enabled=True))
    wait_ready(admin, "torn", 1)
    Client(admin, "torn").fill()
    run_job(admin, "torn-backup", "good")
    eventually(
        lambda: "lastSuccessfulBackup" in admin.get("database", "torn")["status"], "a backup"
    )
    before = admin.get("database", "torn")["status"]["lastSuccessfulBackup"]

    as_superuser = ("exec", "torn-0", "--", "psql", "-U", "postgres", "-h", "/run/postgresql")
    # What the dump reads at its end is no longer there to be read.
    admin(*as_superuser, "-d", "app", "-c", "REVOKE pg_read_all_data FROM backup")
    admin("create", "job", "--from=cronjob/torn-backup", "bad")
    admin("wait", "job/bad", "--for=condition=failed", "--timeout=180s")

    status = admin.get("database", "torn")["status"]
    assert status["lastSuccessfulBackup"] == before
    eventually(
        lambda: "lastFailedBackup" in admin.get("database", "torn")["status"], "the failure told"
    )


def test_the_data_survive_the_end_of_pods_and_of_the_operator(admin: Kubectl) -> None:
    admin.apply(build_database("tough", "medium"))
    wait_ready(admin, "tough", 2)
    client = Client(admin, "tough")
    written = client.fill()
    for grace in ("0", "30"):
        admin(
            "delete",
            "pod",
            "tough-0",
            f"--grace-period={grace}",
            "--force" if grace == "0" else "--now=false",
        )
        began = time.monotonic()
        eventually(
            lambda: client.run("SELECT 1", pod="tough-1").returncode == 0, "the primary is back"
        )
        assert time.monotonic() - began < 60
        assert client.checksum(pod="tough-1") == written
    client.ask("INSERT INTO t VALUES (0, 'new')", pod="tough-1")
    now = client.checksum(pod="tough-1")
    eventually(
        lambda: client.checksum(host="127.0.0.1", pod="tough-1") == now, "a copy that follows"
    )


def test_volumes_grow_without_a_restart_and_never_shrink(admin: Kubectl) -> None:
    admin.apply(build_database("grown"))
    wait_ready(admin, "grown", 1)
    before = admin.get("pod", "grown-0")["metadata"]["uid"]

    admin("patch", "db", "grown", "-p", '{"spec":{"storage":"2Gi"}}', "--type=merge")
    capacity = "--for=jsonpath={.status.capacity.storage}=2Gi"
    admin("wait", "pvc/data-grown-0", capacity, "--timeout=60s")
    wait_ready(admin, "grown", 1)

    assert admin.get("pod", "grown-0")["metadata"]["uid"] == before
    smaller = ("-p", '{"spec":{"storage":"1Gi"}}', "--type=merge")
    assert "a volume cannot shrink" in admin("patch", "db", "grown", *smaller, code=1)


def test_another_major_version_is_refused_in_a_sentence(admin: Kubectl) -> None:
    admin.apply(build_database("dated"))

    for version in ("14", "16"):
        patch = f'{{"spec":{{"version":"{version}"}}}}'
        refused = admin("patch", "database", "dated", "-p", patch, "--type=merge", code=1)
        assert "the major version cannot be changed in place" in refused
    for bad, word in (
        ({"owner": "postgres"}, "the server's own"),
        ({"size": "huge"}, 'supported values: "small", "medium", "large"'),
        ({"storage": "lots"}, "should match"),
    ):
        manifest = build_database("bad", **{"size": "small", **bad})
        try:
            text = admin.apply(manifest)
        except AssertionError as error:
            text = str(error)
        assert word in text
    named = build_database("a" * 41)
    with pytest.raises(AssertionError, match="40 lower-case letters"):
        admin.apply(named)


def test_deletion_keeps_the_data_and_a_new_database_takes_them_up(admin: Kubectl) -> None:
    admin.apply(build_database("again"))
    wait_ready(admin, "again", 1)
    written = Client(admin, "again").fill()

    admin("delete", "database", "again")
    admin("wait", "--for=delete", "pod/again-0", "--timeout=60s")
    eventually(lambda: not admin("get", "secret", "again-app", "--ignore-not-found"), "no Secret")
    assert "Bound" in admin("get", "pvc", "data-again-0")

    admin.apply(build_database("again"))
    wait_ready(admin, "again", 1)
    # The passwords are new: those of the volume were replaced at the start.
    assert Client(admin, "again").checksum() == written


def test_no_password_is_in_a_command_a_log_or_an_environment(admin: Kubectl) -> None:
    admin.apply(build_database("quiet", backup_enabled=True))
    wait_ready(admin, "quiet", 1)
    run_job(admin, "quiet-backup", "once")
    secrets = [admin.get("secret", f"quiet-{name}")["data"] for name in ("app", "credentials")]
    passwords = [
        base64.b64decode(value).decode()
        for data in secrets
        for key, value in data.items()
        if "password" in key
    ]
    assert len(set(passwords)) == 4

    script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' ' '"
    seen = admin("exec", "quiet-0", "--", "bash", "-c", script, code=None)
    seen += admin("logs", "quiet-0") + admin("logs", "job/once")
    seen += admin("get", "statefulset,cronjob,job,pod,configmap", "-o", "yaml")
    assert not [password for password in passwords if password in seen]
