"""A stream into a pod that the node does not open."""

from __future__ import annotations

from kubewright.api.errors import KubewrightError


class StreamRefused(KubewrightError):
    """There is no such stream; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
