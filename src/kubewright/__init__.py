"""Kubernetes operators in Python that provably converge."""
