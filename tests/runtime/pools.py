"""The custom resource of these tests: a pool of as many ConfigMaps as it asks for."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, Field

from kubewright.api import builtin
from kubewright.api.custom_resource import CustomResource, Status
from kubewright.api.resource import Object
from kubewright.runtime.children import Children
from kubewright.runtime.operator import Operator


class PoolSpec(BaseModel):
    size: int = 1
    word: str = "a"
    web: bool = False


class PoolStatus(Status):
    members: list[str] = Field(default_factory=list)


class Pool(CustomResource[PoolSpec, PoolStatus], group="pools.example.com", version="v1"):
    """A pool of ConfigMaps."""


def build_pool(namespace: str, name: str = "pool", **spec: object) -> Object:
    return {
        "apiVersion": "pools.example.com/v1",
        "kind": "Pool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def build_config_map(pool: Pool, number: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{pool.metadata.name}-{number}"},
        "data": {"word": pool.spec.word},
    }


def build_service(pool: Pool) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": pool.metadata.name},
        "spec": {
            "selector": {"app": pool.metadata.name},
            "ports": [{"name": "web", "port": 80, "targetPort": "web"}],
        },
    }


def build_deployment(pool: Pool) -> Object:
    labels = {"app": pool.metadata.name}
    container = {
        "name": "web",
        "image": "web:1",
        "ports": [{"name": "web", "containerPort": 80}],
        "env": [
            {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "WORD", "value": pool.spec.word},
        ],
        "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
        "readinessProbe": {"tcpSocket": {"port": "web"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": pool.metadata.name},
        "spec": {
            "replicas": pool.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1024Mi"}}],
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                },
            },
        },
    }


def build_operator(name: str = "pool-operator", *, workers: int = 4) -> Operator:
    """Build an operator of pools; each call is a process that knows nothing yet."""
    operator = Operator(name, workers=workers)

    @operator.desired(Pool, owns=[builtin.CONFIG_MAP, builtin.SERVICE, builtin.DEPLOYMENT])
    def children(pool: Pool) -> Iterable[Object]:
        for number in range(pool.spec.size):
            yield build_config_map(pool, number)
        if pool.spec.web:
            yield build_service(pool)
            yield build_deployment(pool)

    @operator.status(Pool)
    def status(pool: Pool, children: Children) -> PoolStatus:
        members = [obj["metadata"]["name"] for obj in children.of(builtin.CONFIG_MAP)]
        return PoolStatus(members=members)

    return operator
