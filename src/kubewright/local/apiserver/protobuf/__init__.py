"""Protobuf bodies of built-in kinds (application/vnd.kubernetes.protobuf)."""

from __future__ import annotations

from kubewright.local.apiserver.protobuf.envelope import Envelope, decode_body, open_envelope

__all__ = ["Envelope", "decode_body", "open_envelope"]
