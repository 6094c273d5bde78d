"""The endpoints of Services: EndpointSlices, and the Endpoints that older clients still read."""

from kubewright.local.controllers.endpoints.controller import (
    build_endpoints_controller,
    build_endpointslice_controller,
)
from kubewright.local.controllers.endpoints.mirroring import build_mirroring_controller

__all__ = [
    "build_endpoints_controller",
    "build_endpointslice_controller",
    "build_mirroring_controller",
]
