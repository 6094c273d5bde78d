"""Talk to an API server: credentials, requests, patches, watches, and typed outcomes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubewright.client.client import Client
    from kubewright.client.clock import Clock, SystemClock
    from kubewright.client.connection import connect
    from kubewright.client.http_transport import HTTPTransport
    from kubewright.client.kind import ObjectClass, TypedObject
    from kubewright.client.kubeconfig import KubeConfig
    from kubewright.client.objects import ObjectList, Page, RawObject
    from kubewright.client.requests import PatchType, Propagation, Selector
    from kubewright.client.rest_mapper import RESTMapper
    from kubewright.client.transport import Query, Response, Stream, Transport
    from kubewright.client.watch import WatchEvent

__all__ = [
    "Client",
    "Clock",
    "HTTPTransport",
    "KubeConfig",
    "ObjectClass",
    "ObjectList",
    "Page",
    "PatchType",
    "Propagation",
    "Query",
    "RESTMapper",
    "RawObject",
    "Response",
    "Selector",
    "Stream",
    "SystemClock",
    "Transport",
    "TypedObject",
    "WatchEvent",
    "connect",
]

# Names load at first use: aiohttp and PyYAML cost most, and an in-memory transport needs neither.
_MODULES = {
    "client": ("Client",),
    "clock": ("Clock", "SystemClock"),
    "connection": ("connect",),
    "http_transport": ("HTTPTransport",),
    "kind": ("ObjectClass", "TypedObject"),
    "kubeconfig": ("KubeConfig",),
    "objects": ("ObjectList", "Page", "RawObject"),
    "requests": ("PatchType", "Propagation", "Selector"),
    "rest_mapper": ("RESTMapper",),
    "transport": ("Query", "Response", "Stream", "Transport"),
    "watch": ("WatchEvent",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
