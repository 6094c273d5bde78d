"""What a fault does to the request that it hits."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kubewright.api.errors import APIError, StatusDetails
from kubewright.client.transport import Response


class Refuse(msgspec.Struct, frozen=True):
    """Answer in the server's place; the request does not reach it."""

    code: int
    reason: str = ""
    message: str = ""
    retry_after: int | None = None

    def to_error(self) -> APIError:
        """Build the error that the answer means; a reason that is not given follows the code."""
        details = StatusDetails(retry_after_seconds=self.retry_after or 0)
        status = {"code": self.code, "reason": self.reason, "details": details.to_object()}
        error = APIError.from_status({**status, "message": self.message or "a fault was injected"})
        error.reason = self.reason or error.reason or type(error).default_reason
        return error

    def to_response(self) -> Response:
        """Build the answer: a Status, as an API server writes it."""
        headers = {"Content-Type": "application/json"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return Response(self.code, headers, msgspec.json.encode(self.to_error().to_status()))

    def to_event(self) -> bytes:
        """Build the line by which a watch ends with this error."""
        event = {"type": "ERROR", "object": self.to_error().to_status()}
        return msgspec.json.encode(event) + b"\n"

    def __str__(self) -> str:
        return f"answered {self.code} {self.to_error().reason}".rstrip()


class Cut(msgspec.Struct, frozen=True):
    """Break the connection: before the request reaches the server, or before its answer returns."""

    after_commit: bool

    def __str__(self) -> str:
        return "cut after commit" if self.after_commit else "cut before commit"


class Kill(msgspec.Struct, frozen=True):
    """Kill the client: neither this answer nor anything else passes from here on."""

    after_commit: bool

    def __str__(self) -> str:
        return "killed after commit" if self.after_commit else "killed before commit"


class Delay(msgspec.Struct, frozen=True):
    """Keep the answer back; the server has acted long before."""

    seconds: float

    def __str__(self) -> str:
        return f"answer delayed by {self.seconds:g} s"


class Hold(msgspec.Struct, frozen=True):
    """Freeze the request on its way to the server until the rule is lifted."""

    def __str__(self) -> str:
        return "held"


class Lag(msgspec.Struct, frozen=True):
    """Bring every event of a watch late."""

    seconds: float

    def __str__(self) -> str:
        return f"watch lags by {self.seconds:g} s"


Effect: TypeAlias = Refuse | Cut | Kill | Delay | Hold | Lag
