"""What every namespace is given: the ServiceAccount `default`, the cluster's CA certificate."""

from kubewright.local.controllers.service_account.namespace_object import (
    NamespaceObject,
    build_default_account_controller,
    build_root_ca_controller,
)
from kubewright.local.controllers.service_account.token_secret import (
    build_token_secret_controller,
)

__all__ = [
    "NamespaceObject",
    "build_default_account_controller",
    "build_root_ca_controller",
    "build_token_secret_controller",
]
