"""Admission: what the functions of a kind answer to an AdmissionReview. Nothing here does I/O."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from kubewright.api.errors import APIError, BadRequest, DecodeError, Forbidden, Invalid
from kubewright.api.resource import Object, Resource
from kubewright.runtime.managed_kind import CustomObject, ManagedKind
from kubewright.runtime.validation import Verdict, judge
from kubewright.webhook.json_patch import build_patch, carry_over
from kubewright.webhook.review import (
    AdmissionRequest,
    build_admission,
    build_failure,
    decode_admission,
)

_MOST_CHARACTERS = 256
_MOST_IN_ALL = 4096
"""What an API server passes on of one warning, and of all that come with one answer."""


class AdmissionWebhook(ABC):
    """One webhook of one kind, in one version (admission.k8s.io/v1)."""

    role: ClassVar[str]
    body_limit: ClassVar[int] = 7 << 20
    """Two states of an object of 3 MB, the most that an API server takes, and their envelope."""
    default_timeout: ClassVar[float] = 10

    def __init__(self, managed: ManagedKind[Any]) -> None:
        self._managed = managed

    @property
    def resource(self) -> Resource:
        """The resource whose writes it answers for."""
        return self._managed.resource

    @property
    def path(self) -> str:
        """Where it is served."""
        resource = self.resource
        return f"/{self.role}/{resource.group}/{resource.version}/{resource.plural}"

    @property
    def name(self) -> str:
        """The name in its configuration, which users see where it refuses."""
        resource = self.resource
        return f"{self.role}.{resource.version}.{resource.group_resource}"

    @property
    @abstractmethod
    def operations(self) -> Sequence[str]:
        """The operations that it is asked about."""

    def decode(self, body: bytes) -> AdmissionRequest:
        """Read a request.

        Raises:
            BadRequest: it is none, or about another kind.
        """
        request = decode_admission(body)
        if request.kind.gvk != self.resource.gvk:
            raise BadRequest(f"{self.path} is asked about {request.kind.gvk}: it is not of this")
        return request

    def review(self, request: AdmissionRequest) -> Object:
        """Return the review that answers a request.

        Raises:
            Exception: a function of the user fails in a way that is no refusal.
        """
        return build_admission(request.uid, self.respond(request))

    def refuse(self, request: AdmissionRequest, error: APIError) -> Object:
        """Return the review that refuses a request because of an error."""
        response = {"allowed": False, "status": build_failure(error)}
        return build_admission(request.uid, response)

    @abstractmethod
    def respond(self, request: AdmissionRequest) -> Object:
        """Build the response, without the uid."""


class DefaultingWebhook(AdmissionWebhook):
    """Fills in what was left out, as a patch of what the functions changed."""

    role = "default"

    @property
    def operations(self) -> Sequence[str]:
        """Creations and updates."""
        return ("CREATE", "UPDATE")

    def respond(self, request: AdmissionRequest) -> Object:
        """Call the functions on the object; one that is none of its kind is left as it is.

        The schema then refuses it, with the field, or else the validating webhook does.

        Raises:
            TypeError: a function returned something: it fills in the object that it gets.
            BadRequest: the request holds no object.
        """
        live = _decode_object(request.object)
        obj = self._decode(request)
        if live is None or obj is None or _is_deleting(live):
            return {"allowed": True}
        before = _intent_of(obj)
        for fill in self._managed.default:
            if (returned := fill(obj)) is not None:
                raise TypeError(
                    f"{getattr(fill, '__name__', fill)} returned a {type(returned).__name__}: "
                    "fill in the object that it gets, and return nothing"
                )
        operations = build_patch(live, carry_over(live, before, _intent_of(obj)))
        if not operations:
            return {"allowed": True}
        patch = base64.b64encode(msgspec.json.encode(operations)).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    def _decode(self, request: AdmissionRequest) -> CustomObject | None:
        try:
            obj: CustomObject = self._managed.kind.decode(bytes(request.object))
        except DecodeError:
            return None
        return obj


class ValidatingWebhook(AdmissionWebhook):
    """Refuses what the functions refuse, and passes on what they warn of."""

    role = "validate"

    @property
    def operations(self) -> Sequence[str]:
        """Those that a function is registered for."""
        writes = ("CREATE", "UPDATE") if self._managed.validate else ()
        return (*writes, "DELETE") if self._managed.validate_delete else writes

    def respond(self, request: AdmissionRequest) -> Object:
        """Ask the functions that the operation concerns.

        Raises:
            BadRequest: the request holds no object.
        """
        if request.operation == "DELETE":
            return self._judge_deletion(request)
        if request.operation in ("CREATE", "UPDATE"):
            return self._judge_write(request)
        return {"allowed": True}

    def _judge_write(self, request: AdmissionRequest) -> Object:
        """Judge an object, unless the write changes nothing that a function may judge.

        An object that a rule forbids may be older than the rule: its finalizers and owners must
        change all the same, or it could never be deleted.
        """
        live, stored = _decode_object(request.object), _decode_object(request.old_object)
        if live is None:
            raise BadRequest(f"a review of {request.operation} has no object")
        if _is_deleting(live) or (stored is not None and _is_same_intent(live, stored)):
            return {"allowed": True}
        try:
            new = self._managed.kind.decode(bytes(request.object))
        except DecodeError as error:
            return _build_response(Verdict([error]), Invalid)
        old = None
        if stored is not None:
            try:
                old = self._managed.kind.decode(bytes(request.old_object))
            except DecodeError:
                old = None  # as where the old state is not known
        return _build_response(judge(self._managed.validate, new, old), Invalid)

    def _judge_deletion(self, request: AdmissionRequest) -> Object:
        try:
            obj = self._managed.kind.decode(bytes(request.old_object))
        except DecodeError:
            # What nobody can read cannot be judged, and must not stay for ever.
            return {"allowed": True}
        return _build_response(judge(self._managed.validate_delete, obj), Forbidden)


def _build_response(verdict: Verdict, kind: type[APIError]) -> Object:
    """Build the response to a verdict; `kind` is what a plain refusal is to the client."""
    response: Object = {"allowed": not verdict.refusals}
    if verdict.refusals:
        first = verdict.refusals[0]
        # A single typed refusal says its own code, reason and causes.
        is_typed = len(verdict.refusals) == 1 and isinstance(first, APIError)
        error = first if is_typed and isinstance(first, APIError) else kind(verdict.message, None)
        response["status"] = build_failure(error)
    if warnings := limit_warnings(verdict.warnings):
        response["warnings"] = warnings
    return response


def limit_warnings(warnings: Sequence[str]) -> list[str]:
    """Cut warnings to what an API server passes on as headers, rather than lose them unseen."""
    limited: list[str] = []
    room = _MOST_IN_ALL
    for number, warning in enumerate(warnings):
        text = " ".join(str(warning).split())
        if len(text) > _MOST_CHARACTERS:
            text = text[: _MOST_CHARACTERS - 1] + "…"
        size = len(text.encode())
        # The last line must find room, too.
        if size > room - 32:
            limited.append(f"and {len(warnings) - number} more")
            break
        room -= size
        if text:
            limited.append(text)
    return limited


def _decode_object(raw: msgspec.Raw) -> Object | None:
    decoded: Any = msgspec.json.decode(bytes(raw))
    if decoded is not None and not isinstance(decoded, dict):
        raise BadRequest("the object of the review is not an object")
    return decoded


def _metadata_of(obj: Object) -> Object:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _is_deleting(obj: Object) -> bool:
    return bool(_metadata_of(obj).get("deletionTimestamp"))


def _is_same_intent(new: Object, old: Object) -> bool:
    def intent(obj: Object) -> list[Any]:
        metadata = _metadata_of(obj)
        return [
            metadata.get("labels") or {},
            metadata.get("annotations") or {},
            {key: obj[key] for key in obj if key not in ("metadata", "status", "apiVersion")},
        ]

    return intent(new) == intent(old)


def _intent_of(obj: CustomObject) -> Object:
    """Return what a user may fill in: everything but the status, which is written apart."""
    return {key: value for key, value in obj.to_object().items() if key != "status"}
