"""The objects of a pool, without a cluster."""

from __future__ import annotations

import kubewright as kw
from memcached_operator.models import Memcached, MemcachedSpec
from memcached_operator.objects import build_deployment, build_labels, build_selector, build_service


def build_pool(*, size: int = 3, version: str = "1.6.9") -> Memcached:
    return Memcached(
        metadata=kw.ObjectMeta(name="pool", namespace="ns"),
        spec=MemcachedSpec(size=size, version=version),
    )


def test_deployment_follows_size_and_version() -> None:
    spec = build_deployment(build_pool(size=5, version="1.6.18"))["spec"]

    assert spec["replicas"] == 5
    assert spec["template"]["spec"]["containers"][0]["image"] == "memcached:1.6.18"


def test_selector_does_not_depend_on_the_spec() -> None:
    """A Deployment's selector is immutable: a change of version must not change it."""
    before, after = build_pool(version="1.6.9"), build_pool(size=9, version="1.6.18")

    assert build_selector(before) == build_selector(after)
    selector = build_deployment(after)["spec"]["selector"]["matchLabels"]
    assert selector == build_selector(after)
    template = build_deployment(after)["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= template.items()


def test_service_is_headless_and_selects_the_pods() -> None:
    pool = build_pool()

    spec = build_service(pool)["spec"]

    assert spec["clusterIP"] == "None"
    assert spec["selector"].items() <= build_labels(pool).items()
    assert spec["ports"][0]["port"] == 11211


def test_pod_fits_the_restricted_security_standard() -> None:
    pod = build_deployment(build_pool())["spec"]["template"]["spec"]
    container = pod["containers"][0]["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert container["readOnlyRootFilesystem"] is True


def test_building_twice_gives_the_same() -> None:
    pool = build_pool()

    assert build_deployment(pool) == build_deployment(pool)
    assert build_service(pool) == build_service(pool)
