"""Rules of `x-kubernetes-validations` at the creation of a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubewright.api.errors import Cause
from kubewright.local.apiserver.crd.expressions import find_rules
from kubewright.local.apiserver.field_error import forbidden


def validate_expressions(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Refuse expression rules by name: this server cannot evaluate them."""
    detail = "expression rules (CEL) are not supported by this server: remove them"
    return [forbidden(f"{path}{where}", detail) for where in find_rules(schema)]
