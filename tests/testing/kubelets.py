"""Clusters whose pods become ready."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from kubewright.api import builtin
from kubewright.api.resource import Object
from kubewright.client.requests import PatchType
from kubewright.testing import Cluster
from tests.local.controllers.kubelet import Kubelet

CONTROLLERS = ("serviceaccount", "deployment", "replicaset", "scheduler", "garbage-collector")


@asynccontextmanager
async def with_kubelet(
    opening: AbstractAsyncContextManager[Cluster],
) -> AsyncIterator[Cluster]:
    """Add a node to a cluster, and a kubelet that reports each pod as ready at once."""
    async with opening as cluster:
        name = f"node-{uuid.uuid4().hex[:8]}"
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await cluster.client.create(node)
        # Admission taints each new node until somebody finds it ready.
        untainted = {"spec": {"taints": None}}
        await cluster.client.patch(builtin.NODE, name, untainted, type=PatchType.MERGE)
        kubelet = asyncio.create_task(Kubelet(cluster.client, cluster.namespace, name).run())
        try:
            yield cluster
        finally:
            kubelet.cancel()
            await asyncio.wait((kubelet,))
            await cluster.client.delete(builtin.NODE, name)
