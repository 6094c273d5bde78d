"""Refusals in the words that people know from kube-controller-manager."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.api.errors import (
    APIError,
    Forbidden,
    NotFound,
    ServiceUnavailable,
    Unauthorized,
)

# What client-go makes of an answer that has no Status.
_SENTENCES: Mapping[type[APIError], str] = {
    NotFound: "the server could not find the requested resource",
    ServiceUnavailable: "the server is currently unable to handle the request",
    Unauthorized: "the server has asked for the client to provide credentials",
    Forbidden: "the server does not allow access to the requested resource",
}


def describe_refusal(error: APIError, asked: str) -> str:
    """Return what a refusal says; one without a Status names what was `asked` for."""
    sentence = _SENTENCES.get(type(error))
    has_status = error.details is not None and (error.details.name or error.details.kind)
    return str(error) if sentence is None or has_status else f"{sentence} (get {asked})"
