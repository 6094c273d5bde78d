"""The Database kind: what a user may ask for, and what the operator answers."""

from __future__ import annotations

from typing import Literal

import msgspec
from pydantic import BaseModel, Field

import kubewright as kw
from database_objects import QUANTITY, grow, keep, refuse_words

Size = Literal["small", "medium", "large"]
NAME = r"^[a-z_][a-z0-9_]{0,62}$"
RESERVED = ("postgres", "replication", "backup", "template0", "template1")


class Tier(msgspec.Struct, frozen=True):
    """What a size stands for: instances, and the resources of each."""

    instances: int
    cpu: str
    cpu_request: str
    memory: str
    shared_buffers: str


TIERS: dict[Size, Tier] = {
    "small": Tier(1, "500m", "125m", "512Mi", "128MB"),
    "medium": Tier(2, "1", "250m", "1Gi", "256MB"),
    "large": Tier(3, "2", "500m", "2Gi", "512MB"),
}


class DatabaseSpec(BaseModel):
    """What a user asks for."""

    version: str = Field(
        pattern=r"^[0-9]+(\.[0-9]+)?(-[a-z0-9.]+)?$",
        max_length=40,
        description="Tag of the postgres image, such as 15 or 15.18-bookworm.",
    )
    size: Size = Field(
        description="small, medium and large are 1, 2 and 3 instances with 500m and 512Mi, 1 and "
        "1Gi, 2 and 2Gi of CPU and memory each."
    )
    backup_enabled: bool = Field(default=False, description="Whether backups are made.")
    backup_schedule: str = Field(
        default="0 2 * * *", max_length=100, description="When, as cron says it, in UTC."
    )
    backup_retention: int = Field(
        default=7, ge=1, le=1000, description="How many successful backups are kept."
    )
    backup_storage: str = Field(
        default="1Gi", pattern=QUANTITY, description="Size of the volume for backups."
    )
    storage: str = Field(
        default="1Gi",
        pattern=QUANTITY,
        description="Size of the volume of each instance; it can grow.",
        json_schema_extra=kw.build_rules(grow("storage", "Database")),
    )
    storage_class: str = Field(
        default="",
        max_length=253,
        description="Storage class of the volumes; the cluster's default where it is empty.",
        json_schema_extra=kw.build_rules(keep("storage_class", "Database")),
    )
    database: str = Field(
        default="app",
        pattern=NAME,
        description="Name of the database that is made.",
        json_schema_extra=kw.build_rules(
            refuse_words("database", RESERVED, prefix="pg_"), keep("database", "Database")
        ),
    )
    owner: str = Field(
        default="app",
        pattern=NAME,
        description="Role that owns it, whose password is in the Secret NAME-app.",
        json_schema_extra=kw.build_rules(
            refuse_words("owner", RESERVED, prefix="pg_"), keep("owner", "Database")
        ),
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="What becomes of the volumes when the Database is deleted.",
    )


class DatabaseStatus(kw.Status):
    """What the operator answers."""

    ready: bool = Field(default=False, description="Whether all instances serve.")
    phase: str = Field(default="", description="Creating, Running, Updating or Failed.")
    endpoint: str = Field(default="", description="Where clients read and write.")
    read_only_endpoint: str = Field(default="", description="Where clients only read.")
    version: str = Field(default="", description="Version that all instances run.")
    replicas: int = Field(default=0, description="Number of instances that exist.")
    ready_replicas: int = Field(default=0, description="Number of instances that serve.")
    primary: str = Field(default="", description="Name of the instance that is written to.")
    replication: str = Field(
        default="", description="How the other instances follow; asynchronous: they may lag."
    )
    last_successful_backup: str | None = Field(
        default=None, description="End of the last backup that was checked and can be restored."
    )
    last_failed_backup: str | None = Field(
        default=None, description="End of the last backup that failed."
    )
    failed_backup_reason: str = Field(default="", description="Why it failed.")


class Database(
    kw.CustomResource[DatabaseSpec, DatabaseStatus],
    group="example.com",
    version="v1",
    short_names=["db"],
    columns=[
        kw.Column("Size", "spec.size"),
        kw.Column("Version", "status.version"),
        kw.Column("Instances", "status.readyReplicas", description="Instances that serve."),
        kw.Column("Phase", "status.phase"),
        kw.Column("Endpoint", "status.endpoint"),
        kw.Column("Last backup", "status.lastSuccessfulBackup"),
    ],
    rules=[
        kw.Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",
            "metadata.name: 40 lower-case letters, digits and '-' at most, beginning with a "
            "letter: the names of Services and Jobs are made of it",
        ),
        kw.Rule(
            "int(self.spec.version.split('.')[0].split('-')[0]) == "
            "int(oldSelf.spec.version.split('.')[0].split('-')[0])",
            "spec.version: the major version cannot be changed in place, neither up nor down: make "
            "a new Database and restore a backup into it",
        ),
    ],
):
    """A PostgreSQL database with its instances, volumes, passwords and backups."""
