"""The MySQL kind: what a user may ask for, and what the operator answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

import kubewright as kw
from database_objects import QUANTITY, grow, keep, refuse_words

VERSION = r"^[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?$"
RESERVED_NAMES = ("mysql", "sys", "information_schema", "performance_schema")
RESERVED_USERS = ("root", "backup", "restore", "mysql.sys", "mysql.session", "mysql.infoschema")


def compare_versions(text: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(int(part) for part in text.split("."))


def _rules(*rules: kw.Rule) -> Any:
    return kw.build_rules(*rules)


class MySQLSpec(kw.Model):
    """What a user asks for."""

    database_name: str = Field(
        default="app",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Name of the database that is made.",
        json_schema_extra=_rules(
            refuse_words("databaseName", RESERVED_NAMES), keep("databaseName", "MySQL")
        ),
    )
    database_user: str = Field(
        default="app",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$",
        description="User with all rights on it and no others.",
        json_schema_extra=_rules(
            refuse_words("databaseUser", RESERVED_USERS), keep("databaseUser", "MySQL")
        ),
    )
    storage_size: str = Field(
        default="1Gi",
        pattern=QUANTITY,
        description="Size of the volume; it can grow.",
        json_schema_extra=_rules(grow("storageSize", "MySQL")),
    )
    storage_class: str = Field(
        default="",
        max_length=253,
        description="Storage class of the volumes; the cluster's default where it is empty.",
        json_schema_extra=_rules(keep("storageClass", "MySQL")),
    )
    backup_schedule: str = Field(
        default="",
        max_length=100,
        description="When backups are made, as cron says it, in UTC; where empty, only by hand.",
    )
    backup_retention: int = Field(
        default=7, ge=1, le=1000, description="How many successful backups are kept."
    )
    backup_storage_size: str = Field(
        default="1Gi", pattern=QUANTITY, description="Size of the volume for backups."
    )
    mysql_version: str = Field(
        default="8.0",
        pattern=VERSION,
        description="Tag of the mysql image. It goes up, after a backup; it never goes down.",
        json_schema_extra=_rules(
            kw.Rule(
                "int(self.split('.')[0]) * 1000 + int(self.split('.')[1]) >= "
                "int(oldSelf.split('.')[0]) * 1000 + int(oldSelf.split('.')[1])",
                "mysqlVersion: a server cannot go back to an older version: make a new MySQL and "
                "restore a backup into it",
            )
        ),
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain", description="What becomes of the volumes when the MySQL is deleted."
    )


class MySQLStatus(kw.Status):
    """What the operator answers."""

    phase: str = Field(default="", description="Creating, Running, BackingUp or Upgrading.")
    message: str = Field(default="", description="What it waits for, in a sentence.")
    ready: bool = Field(default=False, description="Whether the server serves.")
    endpoint: str = Field(default="", description="Where clients connect.")
    version: str = Field(default="", description="Version that was started last.")
    last_backup: str | None = Field(
        default=None, description="End of the last backup that was checked and can be restored."
    )
    last_failed_backup: str | None = Field(
        default=None, description="End of the last backup that failed."
    )
    failed_backup_reason: str = Field(default="", description="Why it failed.")


class MySQL(
    kw.CustomResource[MySQLSpec, MySQLStatus],
    group="operators.example.com",
    version="v1alpha1",
    plural="mysqls",
    short_names=["mysql"],
    columns=[
        kw.Column("Version", "status.version"),
        kw.Column("Phase", "status.phase"),
        kw.Column("Endpoint", "status.endpoint"),
        kw.Column("Last backup", "status.lastBackup"),
    ],
    rules=[
        kw.Rule(
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$')",
            "metadata.name: 30 lower-case letters, digits and '-' at most: the names of a Service "
            "and of Jobs are made of it",
        )
    ],
):
    """A MySQL server with a database, a user, a volume and backups."""
