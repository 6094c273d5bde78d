"""What a webhook server tells whoever measures it; by default nobody does.

`kubewright.telemetry` implements these protocols.
"""

from __future__ import annotations

from typing import Protocol


class CallObserver(Protocol):
    """Hear of the calls of one webhook."""

    def called(self) -> None:
        """A call begins; `answered` follows."""
        ...

    def answered(self, code: int, seconds: float) -> None:
        """A call was answered, with an HTTP code, after so many seconds."""
        ...

    def panicked(self) -> None:
        """In a call the user's function raised what is no refusal, or did not end in time."""
        ...


class WebhookObserver(Protocol):
    """Hear of a webhook server."""

    def webhook(self, path: str, *, converts: bool = False) -> CallObserver:
        """Return what hears of the webhook at a path, which converts or admits; called once."""
        ...

    def certificate_read(self, *, failed: bool = False) -> None:
        """The serving certificate was read or made, or could not be."""
        ...


class NoObserver:
    """Hear and forget."""

    def webhook(self, path: str, *, converts: bool = False) -> CallObserver:
        """Return an observer that forgets."""
        return self

    def certificate_read(self, *, failed: bool = False) -> None:
        """Do nothing."""

    def called(self) -> None:
        """Do nothing."""

    def answered(self, code: int, seconds: float) -> None:
        """Do nothing."""

    def panicked(self) -> None:
        """Do nothing."""
