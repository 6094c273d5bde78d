"""The server's configuration and the scripts of its pods. Pure."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import kubewright as kw
from postgres_operator.labels import build_labels
from postgres_operator.models import TIERS, Database

SCRIPTS = ("run.sh", "alive.sh", "backup.sh", "restore.sh")


@cache
def read_script(name: str) -> str:
    """Return a file that lies beside this module."""
    return files("postgres_operator").joinpath("scripts", name).read_text()


def build_scripts(db: Database) -> kw.Object:
    """Build the ConfigMap with the scripts."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{db.metadata.name}-scripts", "labels": build_labels(db)},
        "data": {name: read_script(name) for name in SCRIPTS},
    }


def build_configuration(db: Database) -> kw.Object:
    """Build the ConfigMap with the server's configuration, the same for all instances."""
    settings = build_settings(db)
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{db.metadata.name}-config", "labels": build_labels(db)},
        "data": {
            "postgresql.conf": "\n".join(lines) + "\n",
            "pg_hba.conf": read_script("pg_hba.conf"),
        },
    }


def build_settings(db: Database) -> dict[str, str]:
    """Build the settings by name, quoted where they are text."""
    return {
        "listen_addresses": "'*'",
        "unix_socket_directories": "'/run/postgresql'",
        "shared_buffers": TIERS[db.spec.size].shared_buffers,
        "password_encryption": "'scram-sha-256'",
        "wal_level": "replica",
        "hot_standby": "on",
        "wal_log_hints": "on",
        "max_wal_senders": "10",
        "max_replication_slots": "10",
        # A copy that is away holds up so much of the log and no more: else it fills the volume.
        "max_slot_wal_keep_size": "256MB",
        "max_wal_size": "256MB",
        "wal_sender_timeout": "10s",
        "wal_receiver_timeout": "10s",
        "wal_retrieve_retry_interval": "1s",
        "log_timezone": "'UTC'",
        "timezone": "'UTC'",
        "log_line_prefix": "'%m [%p] %q%u@%d '",
    }
