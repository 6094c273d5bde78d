"""Container logs as container runtimes keep them (CRI log format), and how to read them back.

A line is `TIME STREAM TAG TEXT`: tag F ends a line, tag P says that the next entry goes on with it.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

MAX_LINE = 16 * 1024
MAX_SIZE = 10 * 1024 * 1024
KEPT_FILES = 5
FOLLOW_SECONDS = 0.1

Show = Callable[[str, bytes], Awaitable[None]]
"""Takes a part of a stream, by the stream's name."""


def format_log_time(moment: datetime) -> str:
    """Write a moment with nanoseconds, of which Python knows the first six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


class LogWriter:
    """Writes the output of a container to a file, and rotates it at ten mebibytes."""

    def __init__(self, path: Path, now: Callable[[], datetime], max_size: int = MAX_SIZE) -> None:
        self._path = path
        self._now = now
        self._max_size = max_size
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = open(path, "ab")  # noqa: SIM115  # closed by close(), lives as long

    def write(self, stream: str, text: bytes, *, complete: bool = True) -> None:
        """Write one line, given without its newline, or a part of one."""
        if self._file.tell() >= self._max_size:
            self._rotate()
        tag = "F" if complete else "P"
        head = f"{format_log_time(self._now())} {stream} {tag} ".encode()
        self._file.write(head + text + b"\n")
        self._file.flush()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(KEPT_FILES - 1, 0, -1):
            older = rotated_path(self._path, number)
            newer = rotated_path(self._path, number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        self._file = open(self._path, "ab")  # noqa: SIM115  # closed by close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def copy(self, descriptor: int, stream: str, show: Show | None = None) -> None:
        """Write all that comes out of a pipe or a terminal, line by line, until it closes.

        `show` is given each part as it comes, once it is written.
        """
        reader = asyncio.StreamReader(limit=MAX_LINE)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        pending = b""
        try:
            while part := await _read_part(reader):
                *lines, pending = (pending + part).split(b"\n")
                for line in lines:
                    self._write_line(stream, line)
                while len(pending) >= MAX_LINE:
                    self.write(stream, pending[:MAX_LINE], complete=False)
                    pending = pending[MAX_LINE:]
                if show is not None:
                    await show(stream, part)
            if pending:
                self.write(stream, pending, complete=False)
        finally:
            transport.close()

    def _write_line(self, stream: str, line: bytes) -> None:
        while len(line) > MAX_LINE:
            self.write(stream, line[:MAX_LINE], complete=False)
            line = line[MAX_LINE:]
        self.write(stream, line)


async def _read_part(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(MAX_LINE)
    except OSError as error:
        # So ends a terminal whose other side nobody has open any more.
        if error.errno == errno.EIO:
            return b""
        raise


def rotated_path(path: Path, number: int) -> Path:
    """Return the name of the log that was rotated `number` times."""
    return path.with_name(f"{path.name}.{number}")


class LogOptions(msgspec.Struct, frozen=True):
    """What of a log to read (v1.PodLogOptions). Times are inclusive."""

    follow: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None
    timestamps: bool = False


class LogEntry(msgspec.Struct, frozen=True):
    """An entry of a log file: a line or part of one. `text` has the newline that belongs to it."""

    time: str
    text: bytes


def parse_entry(line: bytes) -> LogEntry | None:
    """Parse a line of a log file; a damaged one, as a full disk leaves behind, is None."""
    match line.rstrip(b"\n").split(b" ", 3):
        case [time, (b"stdout" | b"stderr"), tag, text]:
            end = b"" if tag.startswith(b"P") else b"\n"
            return LogEntry(time.decode(errors="replace"), text + end)
    return None


def select_entries(entries: Iterator[LogEntry], options: LogOptions) -> list[LogEntry]:
    """Return the entries that `since` and `tail_lines` leave."""
    since = format_log_time(options.since) if options.since else ""
    chosen = (entry for entry in entries if entry.time >= since)
    return list(chosen if options.tail_lines is None else deque(chosen, maxlen=options.tail_lines))


async def read_log(
    path: Path, options: LogOptions, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Read a container's log; following ends when the container has ended and all is read.

    `is_running` is asked between reads.
    """
    follower = LogFollower(path)
    renderer = LogRenderer(options)
    try:
        first = await asyncio.to_thread(select_entries, follower.read_all(), options)
        if data := renderer.render(first):
            yield data
        while options.follow and not renderer.is_exhausted:
            running = is_running()
            if data := renderer.render(follower.read_new()):
                yield data
            elif not running:
                return
            else:
                await asyncio.sleep(FOLLOW_SECONDS)
    finally:
        follower.close()


class LogRenderer:
    """Turns entries into what a reader is shown: times only where a line begins, so many bytes."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._budget = options.limit_bytes
        self._at_start = True

    @property
    def is_exhausted(self) -> bool:
        """Tell whether all bytes that the reader allows are shown."""
        return self._budget == 0

    def render(self, entries: Iterable[LogEntry]) -> bytes:
        """Render entries that follow those rendered before."""
        parts = []
        for entry in entries:
            if self._timestamps and self._at_start:
                parts.append(entry.time.encode() + b" ")
            parts.append(entry.text)
            self._at_start = entry.text.endswith(b"\n")
        data = b"".join(parts)
        if self._budget is not None:
            data = data[: self._budget]
            self._budget -= len(data)
        return data


class LogFollower:
    """Remembers how far a log was read, across its rotation and removal. Close it at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def read_all(self) -> Iterator[LogEntry]:
        """Read everything that is there, also what was rotated away."""
        for number in range(KEPT_FILES - 1, 0, -1):
            part = rotated_path(self._path, number)
            if part.exists():
                with part.open("rb") as file:
                    yield from filter(None, map(parse_entry, file))
        yield from self.read_new()

    def read_new(self) -> Iterator[LogEntry]:
        """Read what was added since the last read; an unfinished last line waits."""
        if self._file is not None:
            yield from _read_lines(self._file)
            if not self._is_rotated(self._file):
                return
            self._file.close()
        self._file = self._path.open("rb") if self._path.exists() else None
        if self._file is not None:
            yield from _read_lines(self._file)

    def _is_rotated(self, file: IO[bytes]) -> bool:
        """Tell whether another file has taken the place of the one that is open."""
        inode = os.fstat(file.fileno()).st_ino
        return self._path.exists() and self._path.stat().st_ino != inode

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _read_lines(file: IO[bytes]) -> Iterator[LogEntry]:
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        if entry := parse_entry(line):
            yield entry
