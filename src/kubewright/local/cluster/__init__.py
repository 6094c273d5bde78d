"""A local cluster: one API server, its controllers and its nodes, started and stopped as one."""

from __future__ import annotations

from kubewright.local.cluster.directory import ClusterDirectory, ClusterRecord, list_directories
from kubewright.local.cluster.options import ClusterOptions

__all__ = [
    "ClusterDirectory",
    "ClusterOptions",
    "ClusterRecord",
    "list_directories",
]
