from __future__ import annotations

import msgspec
import pytest
from tests.local.node.objects import RUNNING, build_pod, ended, records_of

from kubewright.local.node.containers import State, Terminated, Waiting
from kubewright.local.node.log_source import LogRefused, choose_attempt


def seen(code: int) -> Terminated:
    return msgspec.structs.replace(ended(code), container_id="kubewright://x")


@pytest.mark.parametrize(
    ("state", "last", "restarts", "previous", "attempt"),
    [
        (RUNNING, None, 0, False, 0),
        (RUNNING, seen(1), 2, False, 2),
        (RUNNING, seen(1), 2, True, 1),
        (seen(0), None, 0, False, 0),
        (Waiting("CrashLoopBackOff"), seen(1), 1, False, 1),
        (Waiting("CrashLoopBackOff"), seen(1), 1, True, 1),
    ],
)
def test_run_is_chosen_by_the_state(
    state: State, last: Terminated | None, restarts: int, previous: bool, attempt: int
) -> None:
    (record,) = records_of(build_pod(), c=state)
    record.last, record.restarts = last, restarts
    assert choose_attempt("p", record, previous=previous) == attempt


@pytest.mark.parametrize(
    ("state", "last", "previous", "message"),
    [
        (RUNNING, None, True, 'previous terminated container "c" in pod "p" not found'),
        (ended(137), None, False, 'container "c" in pod "p" is terminated'),
        (Waiting("X"), ended(137), False, 'container "c" in pod "p" is terminated'),
        (Waiting("X"), None, False, 'container "c" in pod "p" is waiting to start: X'),
        (
            Waiting("ErrImagePull"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            Waiting("ImagePullBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_missing_log_is_refused_in_the_kubelets_words(
    state: State, last: Terminated | None, previous: bool, message: str
) -> None:
    (record,) = records_of(build_pod(), c=state)
    record.last = last
    with pytest.raises(LogRefused) as refused:
        choose_attempt("p", record, previous=previous)
    assert (refused.value.status, str(refused.value)) == (400, message)
