"""The entry points of recipes, with programs that only say what they were asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kubewright.local.node.image import recipe as recipe_module

RECIPES = Path(recipe_module.__file__).with_name("recipes")
SCRIPTS = sorted(RECIPES.glob("*.sh"))
FAKES = {
    "id": "echo 999",
    "initdb": "echo 15 > $PGDATA/PG_VERSION; echo initdb $*",
    "postgres": "[[ $* == *password_encryption* ]] && echo scram-sha-256 || echo postgres $*",
    "pg_ctl": "true",
    "getent": "true",
    "psql": "cat >> $LOG",
    "redis-server": "echo redis-server $*",
    "mariadbd": r"""
case $* in
    *--help*) printf "datadir   $DATA/\nsocket  $DATA/s\nport  3306\n" ;;
    *--skip-networking*) trap "exit 0" TERM; while :; do sleep 0.05; done ;;
    *) echo server $* ;;
esac""",
    "mariadb-install-db": "mkdir -p $DATA/mysql",
    "mariadb": "cat >> $LOG",
    "mysql_tzinfo_to_sql": "true",
}


class Runner:
    """Runs an entry point as an image would, as its user, with made-up programs."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.data = folder / "data"
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name, body in FAKES.items():
            (self._bin / name).write_text(f"#!/bin/bash\n{body}\n")
            (self._bin / name).chmod(0o755)

    def run(self, script: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": f"{self._bin}:/usr/bin:/bin", "LOG": str(self.log)}
        known |= {"PGDATA": str(self.data), "DATA": str(self.data)}
        return subprocess.run(
            ["bash", str(RECIPES / script), *argv],
            env=known | env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_well_formed(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize(
    "script", ["postgres-entrypoint.sh", "mysql-entrypoint.sh", "redis-entrypoint.sh"]
)
def test_other_commands_are_executed_as_they_are(runner: Runner, script: str) -> None:
    assert runner.run(script, "echo", "a  b").stdout == "a  b\n"


@pytest.mark.parametrize(
    ("script", "command", "variable"),
    [
        ("postgres-entrypoint.sh", "postgres", "POSTGRES_PASSWORD"),
        ("mysql-entrypoint.sh", "mariadbd", "MARIADB_ROOT_PASSWORD"),
    ],
)
def test_password_is_needed_once(
    runner: Runner, tmp_path: Path, script: str, command: str, variable: str
) -> None:
    refused = runner.run(script, command)
    assert refused.returncode == 1
    assert variable in refused.stderr
    (tmp_path / "secret").write_text("s")
    both = {variable: "x", f"{variable}_FILE": str(tmp_path / "secret")}
    refused = runner.run(script, command, **both)
    assert refused.returncode == 1
    assert "(but are exclusive)" in refused.stderr


def test_postgres_initializes_once(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    env = {"POSTGRES_PASSWORD_FILE": str(tmp_path / "secret"), "POSTGRES_DB": "app"}
    first = runner.run("postgres-entrypoint.sh", "-c", "x=1", **env)
    assert "PostgreSQL init process complete; ready for start up." in first.stdout
    assert first.stdout.endswith("postgres -c x=1\n")
    assert 'CREATE DATABASE :"db"' in runner.log.read_text()
    assert "host all all all scram-sha-256" in (runner.data / "pg_hba.conf").read_text()
    second = runner.run("postgres-entrypoint.sh", "postgres")
    assert "Skipping initialization" in second.stdout


def test_passwords_of_mariadb_are_escaped(runner: Runner) -> None:
    env = {"MARIADB_ROOT_PASSWORD": "a'b\\c", "MYSQL_DATABASE": "my_app", "MYSQL_USER": "u"}
    done = runner.run("mysql-entrypoint.sh", "--x", MYSQL_PASSWORD="p", **env)
    assert done.stdout.endswith("server --x\n"), done.stderr
    log = runner.log.read_text()
    assert r"CREATE USER root@'%' IDENTIFIED BY 'a\'b\\c';" in log
    assert r"GRANT ALL ON `my\_app`.* TO 'u'@'%';" in log


@pytest.mark.parametrize(
    ("argv", "ran"),
    [
        (["redis-server"], "redis-server --protected-mode no"),
        (["--appendonly", "yes"], "redis-server --appendonly yes --protected-mode no"),
        (["redis-server", "--protected-mode", "yes"], "redis-server --protected-mode yes"),
    ],
)
def test_redis_answers_everybody_unless_told_otherwise(
    runner: Runner, argv: list[str], ran: str
) -> None:
    assert runner.run("redis-entrypoint.sh", *argv).stdout == f"{ran}\n"
