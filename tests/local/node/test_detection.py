from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.local.node import detect_runtime


async def test_missing_program_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.local.node.detection.search_path", lambda: str(tmp_path))
    detection = await detect_runtime()
    assert not detection.processes
    assert detection.reason == "`unshare` is missing: install the package util-linux"


async def test_refused_namespaces_are_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("unshare", "ip"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("kubewright.local.node.detection.search_path", lambda: str(tmp_path))
    detection = await detect_runtime()
    assert not detection.processes
    assert "Operation not permitted" in detection.reason
    assert "run as root" in detection.reason
