"""The channels of a remote command over a WebSocket (KEP-4006). Pure.

Each message begins with a byte that names its channel. v5.channel.k8s.io adds the closing of one
channel to v4: 255, followed by the channel's number.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping

import msgspec

from kubewright.api.resource import Object
from kubewright.local.node.stream_refused import StreamRefused

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_TRUE = ("1", "true")


class Channel(enum.IntEnum):
    """What a message of a remote command carries."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class ExecOptions(msgspec.Struct, frozen=True):
    """What a request to execute a command asks for."""

    command: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def parse_options(command: list[str], query: Mapping[str, str]) -> ExecOptions:
    """Parse the kubelet's parameters: `command`, `input`, `output`, `error`, `tty`.

    Raises:
        StreamRefused: no stream is asked for, or both a terminal and a separate stderr.
    """
    stdin, stdout, stderr, tty = (
        query.get(name) in _TRUE for name in ("input", "output", "error", "tty")
    )
    if not command:
        raise StreamRefused(400, "you must specify a command")
    if tty and stderr:
        # As the kubelet: a terminal has one output.
        stderr = False
    if not (stdin or stdout or stderr):
        raise StreamRefused(400, "you must specify at least 1 of stdin, stdout, stderr")
    return ExecOptions(tuple(command), stdin, stdout, stderr, tty)


def parse_size(payload: bytes) -> tuple[int, int] | None:
    """Parse a terminal's width and height; None where they cannot be sizes."""
    try:
        size = json.loads(payload)
        width, height = int(size["Width"]), int(size["Height"])
    except (ValueError, KeyError, TypeError):
        return None
    return (width, height) if 0 <= width < 1 << 16 and 0 <= height < 1 << 16 else None


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
