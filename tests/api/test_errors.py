import pytest

from kubewright.api.errors import (
    AlreadyExists,
    APIError,
    Cause,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    Remedy,
    StatusDetails,
    Timeout,
    TooManyRequests,
    known_causes,
)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (500, "ServerTimeout", Timeout),
        (422, "", Invalid),
        (409, "", Conflict),
        (418, "ImATeapot", APIError),
    ],
)
def test_reason_then_code_choose_the_class(
    code: int, reason: str, expected: type[APIError]
) -> None:
    error = APIError.from_status({"reason": reason, "code": code, "message": "no"})

    assert type(error) is expected
    assert (error.code, error.reason) == (code, reason or expected.default_reason)


def test_status_survives_the_way_from_server_to_client() -> None:
    sent = Invalid.of(
        "example.com", "Database", "db", [Cause("FieldValueInvalid", "too big", "spec.size")]
    )

    received = APIError.from_status(sent.to_status())

    assert str(received) == 'Database.example.com "db" is invalid: spec.size: too big'
    assert received.details == sent.details
    assert received.to_status() == sent.to_status()


def test_several_causes_stand_in_brackets_and_equal_ones_once() -> None:
    one, two = Cause("FieldValueRequired", "a", "x"), Cause("FieldValueRequired", "b", "y")

    error = Invalid.of("", "Pod", "p", [one, two, one])

    assert str(error) == 'Pod "p" is invalid: [x: a, y: b]'


def test_core_group_is_left_out_of_names() -> None:
    assert str(NotFound.of("", "pods", "p")) == 'pods "p" not found'
    assert str(NotFound.of("apps", "deployments", "d")) == 'deployments.apps "d" not found'
    assert "group" not in NotFound.of("", "pods", "p").to_status()["details"]


def test_missing_details_differ_from_empty_ones() -> None:
    assert "details" not in APIError("x", details=None, code=500).to_status()
    assert APIError("x", code=500).to_status()["details"] == {}


def test_each_error_says_what_to_do_next() -> None:
    assert Conflict("c").remedy is Remedy.REREAD
    assert Invalid("i").remedy is Remedy.WAIT_FOR_CHANGE
    slow = TooManyRequests("slow down", StatusDetails(retry_after_seconds=3))
    assert (slow.remedy, slow.retry_after) == (Remedy.RETRY, 3)


def test_a_group_of_known_errors_is_told_one_by_one() -> None:
    group = ExceptionGroup("", [Conflict("a"), ExceptionGroup("", [Invalid("b")])])

    assert [str(cause) for cause in known_causes(group)] == ["a", "b"]


def test_a_fault_among_known_errors_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup):
        known_causes(ExceptionGroup("", [Conflict("a"), KeyError("b")]))
