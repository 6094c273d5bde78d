"""The built-in kinds: which there are, their rules, and their OpenAPI definitions."""

from __future__ import annotations

from kubewright.local.apiserver.builtin.definitions import definition_of, definitions, schema_for
from kubewright.local.apiserver.builtin.discovery import (
    APIResource,
    GroupVersion,
    group_versions,
    storage_version_hash,
)
from kubewright.local.apiserver.builtin.registry import builtin_kinds

__all__ = [
    "APIResource",
    "GroupVersion",
    "builtin_kinds",
    "definition_of",
    "definitions",
    "group_versions",
    "schema_for",
    "storage_version_hash",
]
