"""The logger of one reconcile: every line says which object it is about."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from kubewright.runtime.attempt import Attempt


class AttemptLogger(logging.LoggerAdapter[logging.Logger]):
    """Put the controller and the key before every message, and give the record its attempt.

    Formatters find the prefix as `record.prefix` and the fields through `record.attempt`. Nothing
    is built, the reconcileID neither, for a line that is not logged.
    """

    def __init__(self, logger: logging.Logger, attempt: Attempt) -> None:
        super().__init__(logger)
        self._attempt = attempt

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the prefix and the attempt."""
        attempt = self._attempt
        prefix = f"{attempt.controller}: {attempt.key}: "
        kwargs["extra"] = {"attempt": attempt, "prefix": prefix, **(kwargs.get("extra") or {})}
        return f"{prefix}{msg}", kwargs
