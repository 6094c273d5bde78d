"""The envelopes that an API server sends: AdmissionReview and ConversionReview, version v1."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from kubewright.api.errors import APIError, BadRequest
from kubewright.api.resource import GroupVersionKind, Object

ADMISSION = "admission.k8s.io/v1"
CONVERSION = "apiextensions.k8s.io/v1"

_NULL = msgspec.Raw(b"null")


class Kind(msgspec.Struct):
    """The type of the object that a request is about."""

    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def gvk(self) -> GroupVersionKind:
        """The type as the rest of Kubewright names it."""
        return GroupVersionKind(self.group, self.version, self.kind)


class AdmissionRequest(msgspec.Struct, rename="camel"):
    """One write, as a webhook is asked about it; the fields that nobody here reads are skipped."""

    uid: str
    kind: Kind
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    sub_resource: str = ""


class ConversionRequest(msgspec.Struct, rename={"desired_api_version": "desiredAPIVersion"}):
    """Objects of one kind, and the version that they are wanted in."""

    uid: str
    desired_api_version: str
    objects: list[Object]


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


class _ConversionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: ConversionRequest


class _Envelope(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


_T = TypeVar("_T")


def decode_admission(body: bytes) -> AdmissionRequest:
    """Read the request of an AdmissionReview.

    Raises:
        BadRequest: the body is none, or of another version.
    """
    return _decode(body, _AdmissionReview, ADMISSION, "AdmissionReview").request


def decode_conversion(body: bytes) -> ConversionRequest:
    """Read the request of a ConversionReview.

    Raises:
        BadRequest: the body is none, or of another version.
    """
    return _decode(body, _ConversionReview, CONVERSION, "ConversionReview").request


def build_admission(uid: str, response: Object) -> Object:
    """Build the review that answers an admission request."""
    return {
        "apiVersion": ADMISSION,
        "kind": "AdmissionReview",
        "response": {"uid": uid, **response},
    }


def build_conversion(uid: str, response: Object) -> Object:
    """Build the review that answers a conversion request."""
    return {
        "apiVersion": CONVERSION,
        "kind": "ConversionReview",
        "response": {"uid": uid, **response},
    }


def build_failure(error: APIError) -> Object:
    """Build the Status inside an answer: which code and reason the client will be told."""
    status = error.to_status()
    return {key: status[key] for key in status if key not in ("kind", "apiVersion", "metadata")}


def _decode(body: bytes, review: type[_T], api_version: str, kind: str) -> _T:
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        if (envelope.api_version, envelope.kind) != (api_version, kind):
            raise BadRequest(
                f"this webhook answers a {kind} of {api_version}, not "
                f"{envelope.kind or 'an object without a kind'} of "
                f"{envelope.api_version or 'no version'}"
            )
        decoded = msgspec.json.decode(body, type=review)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no {kind}: {error}") from error
    except RecursionError as error:
        raise BadRequest(f"the body is no {kind}: it is nested too deeply") from error
    request: Any = decoded.request  # type: ignore[attr-defined]  # both reviews have one
    if not request.uid:
        raise BadRequest(f"the body is no {kind} that can be answered: request.uid is empty")
    return decoded
