"""Read an API server's refusals: which error an answer means, and when to come back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubewright.api.errors import APIError, StatusDetails
from kubewright.api.resource import Object
from kubewright.client.transport import find_header

_TEXT_LIMIT = 500
_RETRIED = frozenset({429, 503})


def is_success(status: int) -> bool:
    """Tell whether an answer is what was asked for; a redirect is not."""
    return 200 <= status < 300


def build_error(status: int, headers: Mapping[str, str], body: bytes) -> APIError:
    """Build the error of an answer that is no success.

    A Status body decides. Anything else, such as a proxy's page, becomes the message, cut short,
    and the HTTP status decides. `retry_after` also knows the Retry-After header.
    """
    error = APIError.from_status(_decode_status(body) or _describe(status, body), status)
    seconds = read_retry_after(headers)
    if seconds is not None and not error.retry_after:
        details = error.details or StatusDetails()
        error.details = details._replace(retry_after_seconds=seconds)
    return error


def read_retry_after(headers: Mapping[str, str]) -> int | None:
    """Return the seconds of a Retry-After header; Kubernetes never sends the date form."""
    text = find_header(headers, "Retry-After").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def read_retry_delay(status: int, headers: Mapping[str, str]) -> int | None:
    """Return the seconds after which the server wants the same request again, if it said so.

    It did not act on a request that it answers with 429 or 503 and a Retry-After, so also a write
    may be repeated.
    """
    return read_retry_after(headers) if status in _RETRIED else None


def _decode_status(body: bytes) -> Object | None:
    try:
        decoded = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    is_status = isinstance(decoded, dict) and decoded.get("kind") == "Status"
    return decoded if is_status else None


def _describe(status: int, body: bytes) -> Object:
    text = body[:_TEXT_LIMIT].decode("utf-8", "replace").strip()
    return {"message": text or f"the server answered {status} with no reason", "code": status}
