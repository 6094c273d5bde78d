"""What is built for a Database, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kubewright as kw
from kubewright.api import builtin
from postgres_operator.backup import build_job
from postgres_operator.instances import build_stateful_set
from postgres_operator.labels import build_labels, build_selector
from postgres_operator.models import Database, DatabaseSpec, DatabaseStatus
from postgres_operator.operator import build_children, build_status, operator
from postgres_operator.services import build_read_only_service, build_service

CRD = Path(__file__).resolve().parents[1] / "config" / "crd.yaml"


def build_database(
    size: Any = "small", *, status: DatabaseStatus | None = None, **spec: Any
) -> Database:
    return Database(
        metadata=kw.ObjectMeta(name="shop", namespace="ns", uid="u"),
        spec=DatabaseSpec(version="15", size=size, **spec),
        status=status,
    )


def names_of(db: Database) -> set[str]:
    return {f"{child['kind']}/{child['metadata']['name']}" for child in build_children(db)}


def test_generated_crd_is_up_to_date() -> None:
    """`make generate` writes it; users apply it."""
    assert list(yaml.safe_load_all(CRD.read_text())) == operator.crds()


def test_a_single_instance_has_nothing_that_is_for_several() -> None:
    alone, several = names_of(build_database()), names_of(build_database("medium"))

    assert several - alone == {"Service/shop-ro", "PodDisruptionBudget/shop"}
    assert names_of(build_database(backup_enabled=True)) - alone == {
        "PersistentVolumeClaim/shop-backups",
        "CronJob/shop-backup",
        "CronJob/shop-restore",
    }


@pytest.mark.parametrize(
    ("size", "instances", "limits"),
    [
        ("small", 1, {"cpu": "500m", "memory": "512Mi"}),
        ("medium", 2, {"cpu": "1", "memory": "1Gi"}),
        ("large", 3, {"cpu": "2", "memory": "2Gi"}),
    ],
)
def test_a_size_is_instances_and_their_resources(
    size: str, instances: int, limits: dict[str, str]
) -> None:
    spec = build_stateful_set(build_database(size))["spec"]

    assert spec["replicas"] == instances
    assert spec["template"]["spec"]["containers"][0]["resources"]["limits"] == limits


def test_only_instances_are_selected() -> None:
    db = build_database("medium")
    selector = build_selector(db).items()

    assert selector <= build_labels(db).items()
    for component in ("backup", "restore"):
        assert not selector <= build_labels(db, component).items()
    for service in (build_service(db), build_read_only_service(db)):
        assert selector < service["spec"]["selector"].items()


def test_every_pod_satisfies_the_restricted_level() -> None:
    db = build_database(backup_enabled=True)
    pods = [build_stateful_set(db)["spec"]["template"]["spec"]]
    pods += [
        build_job(db, component, deadline=1, retries=0)["spec"]["template"]["spec"]
        for component in ("backup", "restore")
    ]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


def test_no_password_is_in_an_object_of_a_pod() -> None:
    text = str(list(build_children(build_database("large", backup_enabled=True))))

    assert "secretKeyRef" not in text
    assert "POSTGRES_PASSWORD" not in text


def build_live(db: Database, **status: Any) -> kw.Object:
    stateful_set = build_stateful_set(db)
    stateful_set["metadata"]["generation"] = 1
    return stateful_set | {"status": {"observedGeneration": 1, **status}}


def test_the_status_is_ready_when_every_instance_runs_what_is_asked() -> None:
    db = build_database("medium")
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    whole = build_live(db, **counts, currentRevision="a", updateRevision="a")
    halfway = build_live(db, **counts, currentRevision="a", updateRevision="b")

    status = build_status(db, kw.Children([whole], lambda resource, labels: []))
    assert (status.ready, status.phase, status.version) == (True, "Running", "15")
    assert status.endpoint == "shop.ns.svc.cluster.local"
    status = build_status(db, kw.Children([halfway], lambda resource, labels: []))
    assert (status.ready, status.phase, status.version) == (False, "Creating", "")
    known = build_database("medium", status=DatabaseStatus(version="15"))
    assert build_status(known, kw.Children([], lambda resource, labels: [])).phase == "Updating"


def test_owned_kinds_cover_every_child() -> None:
    managed = next(iter(operator.kinds))
    kinds = {
        child["kind"] for child in build_children(build_database("large", backup_enabled=True))
    }

    assert kinds <= {kind.resource.kind for kind in managed.owns.values()}
    assert builtin.SECRET.gvk in managed.owns
