"""The namespace controller: empty a deleted namespace, say what is left, then let it go."""

from kubewright.local.controllers.namespace.content import Content
from kubewright.local.controllers.namespace.controller import build_namespace_controller

__all__ = ["Content", "build_namespace_controller"]
