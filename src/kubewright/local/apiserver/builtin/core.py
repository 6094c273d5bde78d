"""Rules of kinds."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.local.apiserver.builtin.rules import Rules

RULES: Mapping[str, Rules] = {}
