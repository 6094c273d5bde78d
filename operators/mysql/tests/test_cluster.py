"""What is built for a MySQLCluster, and what its status says, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

import kubewright as kw
from kubewright.api import builtin
from kubewright.testing import Cluster, crash_points
from mysql_operator import MySQLCluster, MySQLClusterSpec, operator
from mysql_operator.cluster import build_selector, build_stateful_set
from mysql_operator.cluster_models import build_labels, storage_class_of
from mysql_operator.cluster_operator import build_children, build_status


def build_cluster(**spec: Any) -> MySQLCluster:
    return MySQLCluster(
        metadata=kw.ObjectMeta(name="shop", namespace="ns", uid="u"),
        spec=MySQLClusterSpec.model_validate(spec),
    )


def names_of(cluster: MySQLCluster) -> set[str]:
    return {f"{child['kind']}/{child['metadata']['name']}" for child in build_children(cluster)}


def test_a_single_member_has_nothing_that_is_for_several() -> None:
    alone, three = names_of(build_cluster()), names_of(build_cluster(replicas=3))

    assert three - alone == {"Service/shop-ro", "PodDisruptionBudget/shop"}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, ""),
        ({"storage": {"storageClass": "a"}, "cloud": {"provider": "aws"}}, "a"),
        ({"storage": {"storageClassName": "b"}}, "b"),
        ({"cloud": {"provider": "gcp"}}, "premium-rwo"),
        ({"cloud": {"provider": "own"}}, ""),
    ],
)
def test_the_class_is_named_by_the_user_or_by_the_provider(spec: Any, name: str) -> None:
    assert storage_class_of(build_cluster(**spec)) == name


def test_a_region_is_preferred_and_zones_are_spread_over() -> None:
    cluster = build_cluster(replicas=3, cloud={"provider": "aws", "region": "eu-west-1"})
    pod = build_stateful_set(cluster)["spec"]["template"]["spec"]

    assert "eu-west-1" in str(pod["affinity"])
    keys = [each["topologyKey"] for each in pod["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]


def test_what_providers_call_their_disks_is_kept_as_it_is_written() -> None:
    config = {"aws": {"ebs": {"type": "gp3", "iops": 3000}}}
    cluster = build_cluster(cloudConfig=config)

    assert cluster.to_object()["spec"]["cloudConfig"] == config


def build_live(cluster: MySQLCluster, ready: int) -> kw.Object:
    count = cluster.spec.replicas
    live = build_stateful_set(cluster)
    live["metadata"]["generation"] = 1
    status = {"replicas": count, "updatedReplicas": count, "readyReplicas": ready}
    revisions = {"currentRevision": "a", "updateRevision": "a", "observedGeneration": 1}
    return live | {"status": {**status, **revisions}}


def test_the_status_counts_members_and_their_volumes() -> None:
    cluster = build_cluster(replicas=3, storage={"storageClass": "fast", "parameters": {"a": "1"}})
    claims = [{"metadata": {"name": f"data-{n}"}, "status": {"phase": "Bound"}} for n in range(3)]

    def find(resource: kw.Resource, labels: Any) -> list[kw.Object]:
        if resource == builtin.PERSISTENT_VOLUME_CLAIM:
            return claims
        if resource == builtin.STORAGE_CLASS:
            return [{"metadata": {"name": "fast"}, "parameters": {"a": "2"}}]
        return []

    whole = build_status(cluster, kw.Children([build_live(cluster, 3)], find))
    assert (whole.phase, whole.replicas, whole.storage_provisioned) == ("Running", "3/3", True)
    assert whole.replication == "asynchronous"
    assert whole.message == "storage class fast has other parameters than a=1"
    part = build_status(cluster, kw.Children([build_live(cluster, 2)], lambda r, labels: []))
    assert (part.phase, part.replicas, part.storage_provisioned) == ("Creating", "2/3", False)
    assert "storage class fast does not exist" in part.message


def test_the_pods_of_jobs_are_no_members() -> None:
    cluster = build_cluster()
    assert build_selector(cluster).items() <= build_labels(cluster).items()
    for component in ("backup", "restore"):
        assert not build_selector(cluster).items() <= build_labels(cluster, component).items()


def test_members_satisfy_the_restricted_level() -> None:
    pod = build_stateful_set(build_cluster())["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


async def create(cluster: Cluster) -> None:
    await cluster.client.create(
        {
            "apiVersion": "mysql.example.com/v1",
            "kind": "MySQLCluster",
            "metadata": {"name": "shop", "namespace": cluster.namespace},
            "spec": {"replicas": 3},
        }
    )


def without_chance(obj: kw.Object) -> None:
    """Take out what is drawn at random."""
    if obj["kind"] == "Secret":
        obj["data"] = sorted(obj["data"])


@pytest.mark.timeout(600)
async def test_it_ends_in_the_same_state_wherever_it_is_killed() -> None:
    report = await crash_points(
        operator,
        create,
        kinds=(builtin.SECRET, builtin.CONFIG_MAP, builtin.STATEFUL_SET, builtin.CRON_JOB),
        normalise=without_chance,
    )

    report.verify()
