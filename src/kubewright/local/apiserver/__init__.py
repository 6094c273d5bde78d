"""The local API server: what a kube-apiserver 1.37 answers, in this process."""

from __future__ import annotations

from kubewright.local.apiserver.authentication import ADMIN, Authenticator
from kubewright.local.apiserver.exchange import User
from kubewright.local.apiserver.server import APIServer
from kubewright.local.apiserver.serving import RunningServer, ServerOptions, serve

__all__ = [
    "ADMIN",
    "APIServer",
    "Authenticator",
    "RunningServer",
    "ServerOptions",
    "User",
    "serve",
]
