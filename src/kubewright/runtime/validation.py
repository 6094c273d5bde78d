"""What the functions of an operator's author say of an object before it is worked on or stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from kubewright.api.errors import APIError, TerminalError

T = TypeVar("T")

ValidateFunction: TypeAlias = Callable[[T, T | None], Iterable[str] | None]
ValidateDeleteFunction: TypeAlias = Callable[[T], Iterable[str] | None]
DefaultFunction: TypeAlias = Callable[[T], None]

REFUSALS = (ValueError, TerminalError, APIError)
"""What a function raises to refuse an object; anything else is a fault of the function."""


class Verdict(msgspec.Struct):
    """What all checks together say of an object: it is refused where one of them refuses it."""

    refusals: list[Exception] = []
    warnings: list[str] = []

    @property
    def message(self) -> str:
        """All refusals as one text, each said once."""
        return "; ".join(dict.fromkeys(str(refusal) for refusal in self.refusals))


def judge(checks: Sequence[Callable[..., Iterable[str] | None]], *arguments: Any) -> Verdict:
    """Ask every check, so that a user learns all that is wrong at once.

    A check refuses by raising one of `REFUSALS`; what it yields or returns are warnings.

    Raises:
        Exception: a check failed in any other way.
    """
    verdict = Verdict()
    for check in checks:
        try:
            said = check(*arguments)
            # A single text is one warning, not a sequence of letters.
            for warning in (said,) if isinstance(said, str) else said or ():
                verdict.warnings.append(warning)
        except REFUSALS as refusal:
            verdict.refusals.append(refusal)
    return verdict
