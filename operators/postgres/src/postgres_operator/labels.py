"""Names and labels of what belongs to a Database."""

from __future__ import annotations

import kubewright as kw
from postgres_operator.models import Database

APPS = {"database": "postgres"}
ROLE = "databases.example.com/role"


def build_selector(db: Database) -> dict[str, str]:
    """Return the labels that tell this database's instances from all other pods; they stay."""
    return kw.build_instance_labels("postgres", db.metadata.name)


def build_labels(db: Database, component: str = "database") -> dict[str, str]:
    """Return the labels that objects of the database carry."""
    return {
        "app.kubernetes.io/name": "postgres"
        if component == "database"
        else f"postgres-{component}",
        "app.kubernetes.io/instance": db.metadata.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "postgres-operator",
    }


def primary_name(db: Database) -> str:
    """Return the name of the instance that is written to."""
    return f"{db.metadata.name}-0"
