"""Structured logs: lines for people, JSON for machines, with the fields of the reconcile."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias

import msgspec

from kubewright.runtime.attempt import Attempt, current_attempt
from kubewright.telemetry.redaction import redact

LogFormat: TypeAlias = Literal["text", "json"]

_LEVELS = {"WARNING": "warn", "CRITICAL": "fatal"}
# What a record has anyway; everything else was given as `extra` and is a field.
_OWN = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "attempt", "prefix", "taskName"}
)


def configure_logging(
    format: LogFormat = "text", *, level: int = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send what the process logs to a stream, by default stderr, in one of the two formats.

    It replaces the handlers of the root logger. Lines that are logged during a reconcile, whoever
    logs them, have the fields controller, group, kind, namespace, name and reconcileID.

    Arguments:
        format: `text` for people, `json` for machines.
        level: the lowest level that is logged, such as `logging.DEBUG`.
        stream: where the lines go.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JSONFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def build_fields(attempt: Attempt) -> dict[str, str]:
    """Build the fields that tell a reconcile, named as controller-runtime does."""
    return {
        "controller": attempt.controller,
        "group": attempt.resource.group,
        "kind": attempt.resource.kind,
        "namespace": attempt.key.namespace,
        "name": attempt.key.name,
        "reconcileID": attempt.id,
    }


class JSONFormatter(logging.Formatter):
    """Write a record as one line of JSON: ts (RFC 3339), level, logger, msg, and its fields.

    A traceback is in `stacktrace`. Credentials are masked.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Build the line."""
        line: dict[str, Any] = {
            "ts": _format_time(record),
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "logger": record.name,
            "msg": redact(record.getMessage().removeprefix(getattr(record, "prefix", ""))),
        }
        attempt = _find_attempt(record)
        if attempt is not None:
            line |= build_fields(attempt)
        for name, value in vars(record).items():
            if name not in _OWN and name not in line:
                line[name] = redact(value) if isinstance(value, str) else value
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = redact(f"{type(error).__name__}: {error}")
            line["stacktrace"] = redact(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = redact(record.stack_info)
        return msgspec.json.encode(line, enc_hook=_encode_other).decode()


class TextFormatter(logging.Formatter):
    """Write a record as a line that begins with its time, level and object, for people.

    Kind and reconcileID are at its end. Credentials are masked.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Build the line, and the lines of a traceback below it."""
        message, end = record.getMessage(), ""
        attempt = _find_attempt(record)
        if attempt is not None:
            if not hasattr(record, "prefix"):
                message = f"{attempt.controller}: {attempt.key}: {message}"
            end = f" kind={attempt.resource.kind} reconcileID={attempt.id}"
        time = _format_time(record)
        text = f"{time} {record.levelname[0]} {record.name} {message}{end}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        if record.stack_info:
            text += f"\n{record.stack_info}"
        return redact(text)


def _find_attempt(record: logging.LogRecord) -> Attempt | None:
    found = getattr(record, "attempt", None)
    return found if isinstance(found, Attempt) else current_attempt.get()


def _format_time(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode_other(value: object) -> str:
    return redact(str(value))
