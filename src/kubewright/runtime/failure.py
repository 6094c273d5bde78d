"""What a failed reconcile means: whether to come back, when, and how loudly to tell."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from types import FrameType

from kubewright.api.errors import (
    APIError,
    KubewrightError,
    NamespaceTerminating,
    Remedy,
    leaves,
)

_BUGS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(NotImplementedError, RecursionError, TypeError),
)
_HOME = str(Path(__file__).parents[1])


def remedy_of(error: BaseException) -> Remedy:
    """Tell what to do after an error of a reconcile.

    What Kubewright does not know is tried again. Of several errors the one that asks for the
    earliest return decides: to wait for a change must be what all of them say.
    """
    remedies = {
        inner.remedy if isinstance(inner, KubewrightError) else Remedy.RETRY
        for inner in leaves(error)
    }
    for remedy in (Remedy.RETRY, Remedy.GIVE_UP, Remedy.REREAD):
        if remedy in remedies:
            return remedy
    return Remedy.WAIT_FOR_CHANGE


def is_end_of_namespace(error: BaseException) -> bool:
    """Tell whether an error only says that the namespace goes away: the objects in it go too."""
    return all(isinstance(leaf, NamespaceTerminating) for leaf in leaves(deepest_cause(error)))


def is_fault(error: BaseException) -> bool:
    """Tell whether a program is at fault: what the API server says needs no traceback."""
    return any(
        not isinstance(deepest_cause(leaf), KubewrightError)
        for leaf in leaves(deepest_cause(error))
    )


def is_cancellation(error: BaseException) -> bool:
    """Tell whether an error ends the running task because somebody asked it to stop.

    A CancelledError that nobody asked for came from something that was awaited: it is a failure
    like any other, and to pass it on would end a worker or a watch in silence.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def is_passing(error: BaseException) -> bool:
    """Tell whether an error may heal by itself: a server that is away, a race, a missing right.

    So it is with all that the API asks to retry or re-read, and with a connection or a timeout of
    the program's own. A bug stays: it is tried again when something changes, and now and then.
    """
    return all(
        _heals(leaf) or all(_heals(deepest_cause(cause)) for cause in leaves(deepest_cause(leaf)))
        for leaf in leaves(error)
    )


def _heals(error: BaseException) -> bool:
    if isinstance(error, KubewrightError):
        return error.remedy in (Remedy.RETRY, Remedy.REREAD)
    return isinstance(error, OSError | asyncio.CancelledError)


def is_bug(error: BaseException) -> bool:
    """Tell whether an error is of the kind that is a panic in Go: the program is wrong.

    Other errors that are not the API server's, such as one of a database, tell of the world.
    """
    return any(isinstance(deepest_cause(leaf), _BUGS) for leaf in leaves(deepest_cause(error)))


def retry_after(error: BaseException) -> float:
    """Return the seconds that the API server asks to wait; 0 when it does not say."""
    asked = [inner.retry_after for inner in leaves(error) if isinstance(inner, APIError)]
    return float(max(asked, default=0))


def deepest_cause(error: BaseException) -> BaseException:
    """Follow `raise … from` and single-member groups to where it began."""
    seen = {id(error)}
    while True:
        inner = error.__cause__
        if inner is None and isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            inner = error.exceptions[0]
        if inner is None or id(inner) in seen:
            return error
        seen.add(id(inner))
        error = inner


def describe(error: BaseException) -> str:
    """Write an error for people: its deepest cause in full, with its class where that tells more.

    An API server's refusal speaks for itself; a bare `KeyError: 'x'` does not without its name and
    the line of the operator's code where it came from.
    """
    texts = []
    for leaf in leaves(deepest_cause(error)):
        cause = deepest_cause(leaf)
        text = str(cause)
        if not isinstance(cause, KubewrightError) or not text:
            text = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
            place = locate_error(cause)
            text = f"{text} ({place})" if place else text
        texts.append(text)
    return "; ".join(dict.fromkeys(texts))


def locate_error(error: BaseException) -> str:
    """Say which line of an operator's code an error came from; nothing when none is in it.

    Below Kubewright's own frames come those of the author, and below them those of libraries: the
    last one in the folder of the first one is meant.
    """
    return _locate(traceback.walk_tb(error.__traceback__))


def locate_frame(frame: FrameType) -> str:
    """Say which line of an operator's code a thread of Kubewright's is at, down to a frame."""
    stack = reversed([*traceback.walk_stack(frame)])
    return _locate(dropwhile(lambda call: not _is_ours(call[0]), stack))


def _locate(stack: Iterable[tuple[FrameType, int]]) -> str:
    """Say which line of an operator's code a stack is at, from the outermost call on."""
    outside = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in stack
        if not _is_ours(frame)
    ]
    if not outside:
        return ""
    folder = Path(outside[0][0]).parent
    path, line, name = [frame for frame in outside if Path(frame[0]).is_relative_to(folder)][-1]
    return f"{short_path(path)}:{line} in {name}"


def _is_ours(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(_HOME)


def short_path(path: str) -> str:
    """Shorten the path of a source file to what tells it from others: its folder and its name."""
    return "/".join(Path(path).parts[-2:])
