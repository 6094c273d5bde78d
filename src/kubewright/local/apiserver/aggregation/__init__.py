"""API aggregation: groups that other API servers serve, behind this one (kube-aggregator)."""

from kubewright.local.apiserver.aggregation.aggregator import Aggregator, serve_api_services

__all__ = ["Aggregator", "serve_api_services"]
