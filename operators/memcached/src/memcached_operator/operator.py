"""The operator: what should exist for a Memcached, and what its status says."""

from __future__ import annotations

from collections.abc import Iterable

import kubewright as kw
from kubewright.api import builtin, is_condition_true
from memcached_operator.models import Memcached, MemcachedStatus
from memcached_operator.objects import build_deployment, build_selector, build_service

operator = kw.Operator("memcached-operator")

# The pods belong to the Deployment's ReplicaSets: their labels lead back to the pool.
_pods = kw.Watch(builtin.POD, kw.map_to_instance)


@operator.desired(Memcached, owns=[builtin.SERVICE, builtin.DEPLOYMENT])
def build_children(mc: Memcached) -> Iterable[kw.Object]:
    """Build the objects of a pool."""
    yield build_service(mc)
    yield build_deployment(mc)


@operator.status(Memcached, watches=[_pods])
def build_status(mc: Memcached, children: kw.Children) -> MemcachedStatus:
    """Compute the status from the Deployment and the pods."""
    selector = build_selector(mc)
    pods = children.find(builtin.POD, selector)
    deployment = children.get(builtin.DEPLOYMENT, mc.metadata.name) or {}
    counts = deployment.get("status") or {}
    return MemcachedStatus(
        nodes=[pod["metadata"]["name"] for pod in pods if is_node(pod)],
        replicas=counts.get("replicas") or 0,
        ready_replicas=counts.get("readyReplicas") or 0,
        selector=kw.format_selector(selector),
    )


def is_node(pod: kw.Object) -> bool:
    """Tell whether a pod serves: it is ready and not on its way out."""
    return is_condition_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
