from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from tests.local.node.objects import NOW

from kubewright.local.node.logs import LogFollower, LogOptions, LogWriter, read_log, rotated_path


async def read(path: Path, options: LogOptions) -> str:
    parts = [part async for part in read_log(path, options, lambda: False)]
    return b"".join(parts).decode()


async def written(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "0.log"
    log = LogWriter(path, lambda: NOW)
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    await log.copy(reader, "stdout")
    log.close()
    return path


async def test_keeps_lines_and_a_last_one_without_end(tmp_path: Path) -> None:
    path = await written(tmp_path, b"one\ntwo\nend")
    assert await read(path, LogOptions()) == "one\ntwo\nend"
    assert path.read_text().splitlines() == [
        "2026-11-28T01:00:00.000000000Z stdout F one",
        "2026-11-28T01:00:00.000000000Z stdout F two",
        "2026-11-28T01:00:00.000000000Z stdout P end",
    ]


async def test_tail_and_limit_choose_from_the_log(tmp_path: Path) -> None:
    path = await written(tmp_path, b"line 1\nline 2\nline 3\n")
    assert await read(path, LogOptions(tail_lines=2)) == "line 2\nline 3\n"
    assert await read(path, LogOptions(tail_lines=0)) == ""
    assert await read(path, LogOptions(limit_bytes=9)) == "line 1\nli"
    assert await read(path, LogOptions(tail_lines=2, limit_bytes=9)) == "line 2\nli"


async def test_since_leaves_out_what_is_older(tmp_path: Path) -> None:
    path = await written(tmp_path, b"old\n")
    assert await read(path, LogOptions(since=NOW)) == "old\n"
    assert await read(path, LogOptions(since=NOW + timedelta(seconds=1))) == ""


async def test_timestamps_stand_where_lines_begin(tmp_path: Path) -> None:
    path = await written(tmp_path, b"x" * 20000 + b"\nend")
    text = await read(path, LogOptions(timestamps=True))
    assert text.count("2026-11-28T01:00:00.000000000Z ") == 2


async def test_long_lines_come_back_whole(tmp_path: Path) -> None:
    path = await written(tmp_path, b"x" * 50000 + b"\n")
    assert await read(path, LogOptions()) == "x" * 50000 + "\n"


async def test_following_ends_with_the_container(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogWriter(path, lambda: NOW)
    log.write("stdout", b"first")
    answers = iter([True, True, False])

    def is_running() -> bool:
        running = next(answers, False)
        log.write("stdout", b"more" if running else b"last")
        return running

    parts = []
    async for part in read_log(path, LogOptions(follow=True), is_running):
        parts.append(part)
        if len(parts) > 10:
            break
    log.close()
    assert b"".join(parts).startswith(b"first\nmore\nmore\nlast\n")


def test_rotates_and_reads_across_files(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogWriter(path, lambda: NOW, max_size=100)
    for number in range(10):
        log.write("stdout", b"line %d" % number)
    log.close()
    assert rotated_path(path, 1).exists()
    follower = LogFollower(path)
    texts = [entry.text for entry in follower.read_all()]
    follower.close()
    assert texts[-3:] == [b"line 7\n", b"line 8\n", b"line 9\n"]


def test_follower_reads_on_across_a_rotation_and_a_removal(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogWriter(path, lambda: NOW, max_size=60)
    follower = LogFollower(path)
    log.write("stdout", b"one")
    assert [entry.text for entry in follower.read_new()] == [b"one\n"]
    log.write("stdout", b"two")
    log.write("stdout", b"three")
    assert [entry.text for entry in follower.read_new()] == [b"two\n", b"three\n"]
    log.write("stdout", b"four")
    path.unlink()
    log.close()
    assert [entry.text for entry in follower.read_new()][-1:] == [b"four\n"]
    follower.close()
