"""The MySQLCluster kind: what a user may ask for, and what the operator answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

import kubewright as kw
from database_objects import grow, keep
from mysql_operator.models import VERSION

STORAGE_CLASSES = {"aws": "gp3", "azure": "managed-csi-premium", "gcp": "premium-rwo"}
"""The class that a provider's own driver makes, where the user names none."""


class ClusterStorage(kw.Model):
    """The volume of each member."""

    size: str = Field(
        default="1Gi",
        pattern=r"^\d+[GTM]i$",
        description="Size; it can grow.",
        json_schema_extra=kw.build_rules(grow("storage.size", "MySQLCluster")),
    )
    storage_class: str = Field(
        default="",
        description="Storage class; that of the provider, or the cluster's default, where empty.",
        json_schema_extra=kw.build_rules(keep("storage.storageClass", "MySQLCluster")),
    )
    storage_class_name: str = Field(
        default="",
        description="The same by its other name.",
        json_schema_extra=kw.build_rules(keep("storage.storageClassName", "MySQLCluster")),
    )
    parameters: dict[str, str] = Field(
        default_factory=dict, description="Parameters that the storage class must have."
    )


class ClusterBackup(kw.Model):
    """When backups are made, and how many are kept."""

    schedule: str = Field(
        default="",
        max_length=100,
        description="When, as cron says it, in UTC; or by hand.",
    )
    retention: int = Field(default=7, ge=1, le=1000, description="How many are kept.")
    storage_size: str = Field(
        default="1Gi", pattern=r"^\d+[GTM]i$", description="Size of the volume for backups."
    )


class ClusterCloud(kw.Model):
    """Where the cluster runs."""

    provider: str = Field(default="", description="aws, azure, gcp, or none of them.")
    region: str = Field(default="", description="Region whose nodes are preferred.")


class CloudConfig(kw.Model):
    """What providers call their disks and machines; kept as it is written."""

    model_config = ConfigDict(extra="allow")


class MySQLClusterSpec(kw.Model):
    """What a user asks for."""

    replicas: int = Field(default=1, ge=1, le=9, description="Number of members.")
    version: str = Field(default="8.4", pattern=VERSION, description="Tag of the mysql image.")
    storage: ClusterStorage = Field(default_factory=ClusterStorage)
    backup: ClusterBackup = Field(default_factory=ClusterBackup)
    cloud: ClusterCloud = Field(default_factory=ClusterCloud)
    cloud_config: CloudConfig = Field(default_factory=CloudConfig)
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain", description="What becomes of the members' volumes with the cluster."
    )


class MySQLClusterStatus(kw.Status):
    """What the operator answers."""

    phase: str = Field(default="", description="Creating, Running or Updating.")
    replicas: str = Field(default="", description="Members that serve, of those asked for: 3/3.")
    members: int = Field(default=0, description="Number of members that exist.")
    selector: str = Field(default="", description="Label selector of the members.")
    storage_provisioned: bool = Field(default=False, description="Whether each has its volume.")
    primary: str = Field(default="", description="Member that is written to.")
    replication: str = Field(default="", description="How others follow; asynchronous may lag.")
    endpoint: str = Field(default="", description="Where clients read and write.")
    read_only_endpoint: str = Field(default="", description="Where clients only read.")
    version: str = Field(default="", description="Version that all members run.")
    message: str = Field(default="", description="What is missing, in a sentence.")
    last_successful_backup: str | None = Field(
        default=None, description="End of the last backup that was checked and can be restored."
    )
    last_failed_backup: str | None = Field(
        default=None, description="End of the last backup that failed."
    )
    failed_backup_reason: str = Field(default="", description="Why it failed.")


class MySQLCluster(
    kw.CustomResource[MySQLClusterSpec, MySQLClusterStatus],
    group="mysql.example.com",
    version="v1",
    plural="mysqlclusters",
    scale=kw.Scale(spec="spec.replicas", status="status.members", selector="status.selector"),
    columns=[
        kw.Column("Phase", "status.phase"),
        kw.Column("Members", "status.replicas"),
        kw.Column("Version", "status.version"),
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
            "int(self.spec.version.split('.')[0]) * 1000 + int(self.spec.version.split('.')[1]) >= "
            "int(oldSelf.spec.version.split('.')[0]) * 1000 + "
            "int(oldSelf.spec.version.split('.')[1])",
            "spec.version: a server cannot go back to an older version: restore a backup into a "
            "new MySQLCluster",
        ),
    ],
):
    """MySQL servers of which one is written to and the others follow."""


def storage_class_of(cluster: MySQLCluster) -> str:
    """Return the class of the volumes; empty for the cluster's default."""
    storage, provider = cluster.spec.storage, cluster.spec.cloud.provider
    return storage.storage_class or storage.storage_class_name or STORAGE_CLASSES.get(provider, "")


def primary_of(cluster: MySQLCluster) -> str:
    """Return the name of the member that is written to."""
    return f"{cluster.metadata.name}-0"


def build_labels(cluster: MySQLCluster, component: str = "") -> dict[str, Any]:
    """Return the labels of the cluster's objects; those of Jobs do not match its members'."""
    app = f"mysqlcluster-{component}" if component else "mysqlcluster"
    return {
        **kw.build_instance_labels(app, cluster.metadata.name),
        "app.kubernetes.io/managed-by": "mysql-operator",
    }
