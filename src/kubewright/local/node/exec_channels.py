"""What a remote command is asked for and how it ends, whatever carries its streams. Pure."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.stream_refused import StreamRefused

_TRUE = ("1", "true")


class Channel(enum.IntEnum):
    """The streams of a remote command by their numbers on a WebSocket (KEP-4006).

    CLOSE is no stream: it says that the one whose number follows has ended.
    """

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class StreamOptions(msgspec.Struct, frozen=True):
    """Which streams a client wants of a command, or of a container that it attaches to."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def parse_options(query: Mapping[str, str]) -> StreamOptions:
    """Parse the kubelet's parameters: `input`, `output`, `error`, `tty`.

    Raises:
        StreamRefused: no stream is asked for.
    """
    stdin, stdout, stderr, tty = (
        query.get(name) in _TRUE for name in ("input", "output", "error", "tty")
    )
    if tty and stderr:
        # As the kubelet: a terminal has one output.
        stderr = False
    if not (stdin or stdout or stderr):
        raise StreamRefused(400, "you must specify at least 1 of stdin, stdout, stderr")
    return StreamOptions(stdin, stdout, stderr, tty)


def parse_size(payload: bytes) -> tuple[int, int] | None:
    """Parse a terminal's width and height; None where they cannot be sizes."""
    try:
        size = json.loads(payload)
        width, height = int(size["Width"]), int(size["Height"])
    except (ValueError, KeyError, TypeError):
        return None
    return (width, height) if 0 <= width < 1 << 16 and 0 <= height < 1 << 16 else None


def encode_status(status: Object) -> bytes:
    """Encode a Status for the error stream."""
    return json.dumps(status).encode()


def build_exit_status(code: int) -> Object:
    """Build the Status that ends a command."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def build_failure(message: str) -> Object:
    """Build the Status for a command that could not be started."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }
