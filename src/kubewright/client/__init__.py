"""Talk to an API server: credentials, requests, patches, watches, and typed outcomes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubewright.client.client import Client
from kubewright.client.clock import Clock, SystemClock
from kubewright.client.kind import ObjectClass, TypedObject
from kubewright.client.objects import ObjectList, Page, RawObject
from kubewright.client.requests import PatchType, Propagation, Selector
from kubewright.client.rest_mapper import RESTMapper
from kubewright.client.transport import Query, Response, Stream, Transport
from kubewright.client.watch import WatchEvent

if TYPE_CHECKING:
    from kubewright.client.connection import connect
    from kubewright.client.http_transport import HTTPTransport
    from kubewright.client.kubeconfig import KubeConfig

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

# aiohttp and PyYAML cost half of the import time, and an in-memory transport needs neither.
_LAZY = {
    "HTTPTransport": "kubewright.client.http_transport",
    "KubeConfig": "kubewright.client.kubeconfig",
    "connect": "kubewright.client.connection",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
