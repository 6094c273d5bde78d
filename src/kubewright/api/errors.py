"""The error tree. Each class tells what its receiver may do next.

    KubewrightError
    ├── ConfigurationError        a kubeconfig, a flag or a file cannot be used     GIVE_UP
    ├── SchemaError               a model has no structural schema                  GIVE_UP
    ├── DecodeError               an object does not fit the model of its kind      WAIT_FOR_CHANGE
    ├── TransportError            no answer came: the request may have happened     RETRY
    ├── TerminalError             the reconciler says: not until the object changes WAIT_FOR_CHANGE
    └── APIError                  the API server answered with a Status
        ├── BadRequest          400 GIVE_UP       ├── Gone                   410 REREAD
        ├── Unauthorized        401 RETRY         ├── Expired                410 REREAD
        ├── Forbidden           403 RETRY         ├── RequestEntityTooLarge  413 GIVE_UP
        │   └── NamespaceTerminating WAIT_FOR_CHANGE
        ├── NotFound            404 REREAD        ├── UnsupportedMediaType   415 GIVE_UP
        ├── MethodNotAllowed    405 GIVE_UP       ├── Invalid                422 WAIT_FOR_CHANGE
        ├── NotAcceptable       406 GIVE_UP       ├── TooManyRequests        429 RETRY
        ├── AlreadyExists       409 REREAD        ├── InternalError          500 RETRY
        └── Conflict            409 REREAD        ├── NotImplementedByServer 501 GIVE_UP
                                                  ├── ServiceUnavailable     503 RETRY
                                                  └── Timeout                504 RETRY

The local API server raises the same classes that the client raises from its answers: both sides
agree on one table of reasons (Kubernetes API conventions, "Response Status Kind").
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from kubewright.api.resource import Object


class Remedy(enum.Enum):
    """What the receiver of an error may do next."""

    RETRY = "retry"
    """Do the same again later."""
    REREAD = "reread"
    """Read the object afresh, decide anew, then try again."""
    WAIT_FOR_CHANGE = "wait for change"
    """Nothing helps until the object changes."""
    GIVE_UP = "give up"
    """The request itself is wrong; repeating it is useless."""


class KubewrightError(Exception):
    """The root of all errors that Kubewright raises on purpose."""

    remedy: ClassVar[Remedy] = Remedy.GIVE_UP


class ConfigurationError(KubewrightError):
    """A kubeconfig, a flag or a file cannot be used; the message says which and what to do."""


class SchemaError(KubewrightError):
    """A model cannot be expressed as a structural schema; the message names the field."""


class DecodeError(KubewrightError):
    """An object as the API server has it does not fit the model of its kind."""

    remedy = Remedy.WAIT_FOR_CHANGE


class TransportError(KubewrightError):
    """No answer came from the API server. A write may or may not have happened."""

    remedy = Remedy.RETRY


class TerminalError(KubewrightError):
    """Raised by a reconciler whose object cannot succeed as it is: not retried until it changes."""

    remedy = Remedy.WAIT_FOR_CHANGE


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def known_causes(error: Exception) -> list[KubewrightError]:
    """Return the errors of this tree that an error or a group of errors consists of.

    Raises:
        Exception: the error itself, where something else is in it: that is a fault of a program.
    """
    causes = list(leaves(error))
    known = [cause for cause in causes if isinstance(cause, KubewrightError)]
    if len(known) < len(causes):
        raise error
    return known


class Cause(NamedTuple):
    """One reason of a refusal: a word such as `FieldValueRequired`, a message, the field's path."""

    reason: str
    message: str
    field: str = ""

    def to_object(self) -> Object:
        """Return the cause as an API server writes it."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in parts.items() if value}


class StatusDetails(NamedTuple):
    """The `details` of a Status: which object, which causes, when to come back."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0

    def to_object(self) -> Object:
        """Return the details as an API server writes them: empty fields are left out."""
        parts: Object = {
            "name": self.name,
            "group": self.group,
            "kind": self.kind,
            "uid": self.uid,
            "causes": [cause.to_object() for cause in self.causes],
            "retryAfterSeconds": self.retry_after_seconds,
        }
        return {key: value for key, value in parts.items() if value}

    @classmethod
    def from_object(cls, details: Mapping[str, Any]) -> Self:
        """Read the details of a Status."""
        causes = tuple(
            Cause(c.get("reason") or "", c.get("message") or "", c.get("field") or "")
            for c in details.get("causes") or ()
        )
        return cls(
            name=details.get("name") or "",
            group=details.get("group") or "",
            kind=details.get("kind") or "",
            uid=details.get("uid") or "",
            causes=causes,
            retry_after_seconds=int(details.get("retryAfterSeconds") or 0),
        )


_NO_DETAILS = StatusDetails()


class APIError(KubewrightError):
    """An API server refused a request with a Status.

    `code` is the HTTP status, `reason` Kubernetes' word for it, such as `NotFound`, and `message`
    the server's sentence. Each reason has a class of its own; catch that, or ask `remedy` what may
    be done next. `details` is None where the server sends none; an empty one is written as `{}`.
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        details: StatusDetails | None = _NO_DETAILS,
        code: int = 0,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.code = code or self.default_code
        self.reason = reason or self.default_reason

    def __str__(self) -> str:
        return self.message

    @property
    def retry_after(self) -> int:
        """Seconds after which the server asks to come back; 0 where it does not say."""
        return self.details.retry_after_seconds if self.details else 0

    def to_status(self) -> Object:
        """Return the Status object that an API server sends for this error."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details.to_object()
        status["code"] = self.code
        return status

    @staticmethod
    def from_status(status: Mapping[str, Any], code: int = 0) -> APIError:
        """Build the error of the class that a Status names.

        The reason decides; an unknown reason falls back to the class of the HTTP code, and that to
        `APIError` itself.
        """
        reason = status.get("reason") or ""
        code = int(status.get("code") or code or 500)
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or APIError
        details = status.get("details")
        parsed = None if details is None else StatusDetails.from_object(details)
        if kind is Forbidden and parsed is not None and _is_namespace_terminating(parsed):
            kind = NamespaceTerminating
        return kind(
            message=status.get("message") or reason or f"the server answered {code}",
            details=parsed,
            code=code,
            reason=reason,
        )


class BadRequest(APIError):
    """The server cannot understand the request."""

    default_code, default_reason = 400, "BadRequest"


class Unauthorized(APIError):
    """The server does not know who asks; credentials may be renewed and tried again."""

    remedy = Remedy.RETRY
    default_code, default_reason = 401, "Unauthorized"


class Forbidden(APIError):
    """The user may not do this; a missing right may be granted later."""

    remedy = Remedy.RETRY
    default_code, default_reason = 403, "Forbidden"


class NamespaceTerminating(Forbidden):
    """Nothing can be created in a namespace that is being deleted; all that is in it goes too."""

    remedy = Remedy.WAIT_FOR_CHANGE


class NotFound(APIError):
    """The object, or the resource itself, is not there."""

    remedy = Remedy.REREAD
    default_code, default_reason = 404, "NotFound"

    @classmethod
    def of(cls, group: str, plural: str, name: str) -> Self:
        """Build the answer for a missing object."""
        what = f"{plural}.{group}" if group else plural
        return cls(f'{what} "{name}" not found', StatusDetails(name=name, group=group, kind=plural))


class MethodNotAllowed(APIError):
    """The resource does not support this verb."""

    default_code, default_reason = 405, "MethodNotAllowed"


class NotAcceptable(APIError):
    """The server can write none of the media types that the client accepts."""

    default_code, default_reason = 406, "NotAcceptable"


class AlreadyExists(APIError):
    """An object of this name is there already."""

    remedy = Remedy.REREAD
    default_code, default_reason = 409, "AlreadyExists"

    @classmethod
    def of(cls, group: str, plural: str, name: str) -> Self:
        """Build the answer for a duplicate."""
        what = f"{plural}.{group}" if group else plural
        return cls(
            f'{what} "{name}" already exists', StatusDetails(name=name, group=group, kind=plural)
        )


class Conflict(APIError):
    """The object changed since it was read, or another manager owns the field."""

    remedy = Remedy.REREAD
    default_code, default_reason = 409, "Conflict"

    @classmethod
    def of(cls, group: str, plural: str, name: str, message: str) -> Self:
        """Build the answer for a write that lost the race for an object."""
        what = f"{plural}.{group}" if group else plural
        return cls(
            f'Operation cannot be fulfilled on {what} "{name}": {message}',
            StatusDetails(name=name, group=group, kind=plural),
        )


class Gone(APIError):
    """The thing was there and will not come back."""

    remedy = Remedy.REREAD
    default_code, default_reason = 410, "Gone"


class Expired(APIError):
    """The resource version or continue token is too old: list afresh."""

    remedy = Remedy.REREAD
    default_code, default_reason = 410, "Expired"


class RequestEntityTooLarge(APIError):
    """The body is larger than the server takes."""

    default_code, default_reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(APIError):
    """The server cannot read the body's media type."""

    default_code, default_reason = 415, "UnsupportedMediaType"


class Invalid(APIError):
    """The object breaks a rule of its kind; the causes name the fields."""

    remedy = Remedy.WAIT_FOR_CHANGE
    default_code, default_reason = 422, "Invalid"

    @classmethod
    def of(cls, group: str, kind: str, name: str, causes: Sequence[Cause]) -> Self:
        """Build the answer for an object that fails validation (field.ErrorList's wording)."""
        what = f"{kind}.{group}" if group else kind
        # Equal errors are told once, as the Go aggregate does.
        texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        details = StatusDetails(name=name, group=group, kind=kind, causes=tuple(causes))
        return cls(f'{what} "{name}" is invalid: {text}', details)


class TooManyRequests(APIError):
    """The server asks to slow down."""

    remedy = Remedy.RETRY
    default_code, default_reason = 429, "TooManyRequests"


class InternalError(APIError):
    """The server failed."""

    remedy = Remedy.RETRY
    default_code, default_reason = 500, "InternalError"


class NotImplementedByServer(APIError):
    """The server knows the feature by name and does not support it."""

    default_code, default_reason = 501, "NotImplemented"


class ServiceUnavailable(APIError):
    """The server is not ready."""

    remedy = Remedy.RETRY
    default_code, default_reason = 503, "ServiceUnavailable"


class Timeout(APIError):
    """The server did not finish in time; a write may have happened."""

    remedy = Remedy.RETRY
    default_code, default_reason = 504, "Timeout"


def _is_namespace_terminating(details: StatusDetails) -> bool:
    # The API has no reason of its own for it: kube-apiserver adds this cause to a Forbidden.
    return any(cause.reason == "NamespaceTerminating" for cause in details.causes)


_CLASSES: tuple[type[APIError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    NotImplementedByServer,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON: dict[str, type[APIError]] = {cls.default_reason: cls for cls in _CLASSES}
# ServerTimeout is a 500 that asks to try again; it is a Timeout to its receiver.
_BY_REASON["ServerTimeout"] = Timeout
# Two reasons share 409 and two 410: the later class is the more general reading of a bare code.
_BY_CODE: dict[int, type[APIError]] = {cls.default_code: cls for cls in _CLASSES}
