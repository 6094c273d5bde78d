"""How instances are reached, and how many may go at once. Pure."""

from __future__ import annotations

import kubewright as kw
from database_objects import REPLICA
from postgres_operator.labels import ROLE, build_labels, build_selector, primary_name
from postgres_operator.models import Database

PORT = 5432
POD_NAME = "statefulset.kubernetes.io/pod-name"


def build_service(db: Database) -> kw.Object:
    """Build the Service of clients that read and write: it leads to the primary alone.

    The primary is selected by a label that its StatefulSet sets, so that it is found again when the
    operator is away.
    """
    return _build(db, db.metadata.name, {**build_selector(db), POD_NAME: primary_name(db)})


def build_read_only_service(db: Database) -> kw.Object:
    """Build the Service of clients that only read: it leads to the copies."""
    return _build(db, f"{db.metadata.name}-ro", {**build_selector(db), ROLE: REPLICA})


def build_peers(db: Database) -> kw.Object:
    """Build the headless Service that gives each instance a name, also before it is ready."""
    service = _build(db, f"{db.metadata.name}-pods", build_selector(db))
    service["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return service


def _build(db: Database, name: str, selector: dict[str, str]) -> kw.Object:
    port = {"name": "postgres", "port": PORT, "targetPort": "postgres", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": build_labels(db)},
        "spec": {"selector": selector, "ports": [port]},
    }


def build_disruption_budget(db: Database) -> kw.Object:
    """Build the budget: one instance at a time may go, for its node's sake."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": db.metadata.name, "labels": build_labels(db)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": build_selector(db)}},
    }
