"""Checks refuse and warn; all of them are heard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubewright.api.errors import TerminalError
from kubewright.runtime.validation import judge


def warn(new: str, old: str | None) -> Iterator[str]:
    yield "first"
    yield "second"


def warn_once(new: str, old: str | None) -> str:
    return "one text"


def refuse(new: str, old: str | None) -> None:
    raise ValueError(f"{new} is odd")


def warn_and_refuse(new: str, old: str | None) -> Iterator[str]:
    yield "said before"
    raise TerminalError("never")


def test_all_refusals_and_warnings_are_heard() -> None:
    verdict = judge([warn, refuse, warn_once, warn_and_refuse], "3", None)

    assert verdict.warnings == ["first", "second", "one text", "said before"]
    assert verdict.message == "3 is odd; never"


def test_silence_accepts() -> None:
    assert judge([lambda new, old: None], "3", None).refusals == []


def test_a_fault_is_no_refusal() -> None:
    def fail(new: str, old: str | None) -> None:
        raise KeyError(new)

    with pytest.raises(KeyError):
        judge([fail], "3", None)
