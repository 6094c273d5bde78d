"""The local API server: what a kube-apiserver 1.37 answers, in this process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Names load at first use: importing one module of the package loads no server.
_MODULES = {
    "authentication": ("ADMIN", "Authenticator"),
    "exchange": ("User",),
    "server": ("APIServer",),
    "serving": ("RunningServer", "ServerOptions", "serve"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
