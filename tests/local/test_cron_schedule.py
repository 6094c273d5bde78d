from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from kubewright.local.cron_schedule import ScheduleError, parse_schedule

NEW_YORK = ZoneInfo("America/New_York")
START = datetime(2026, 3, 4, 10, 20, 30, 400, tzinfo=UTC)  # a Wednesday


def next_times(text: str, start: datetime, count: int, zone: ZoneInfo | None = None) -> list[str]:
    schedule = parse_schedule(text, zone or UTC)
    times, moment = [], start
    for _ in range(count):
        found = schedule.next(moment)
        assert found is not None
        moment = found
        times.append(moment.astimezone(zone or UTC).strftime("%m-%d %H:%M%z"))
    return times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "03-04 10:21"),
        ("*/15 * * * *", "03-04 10:30"),
        ("20 10 * * *", "03-05 10:20"),
        ("5/20 9-17/4 * * *", "03-04 13:05"),
        ("0 0 ? * ?", "03-05 00:00"),
        ("0 0 * * sun", "03-08 00:00"),
        ("0 0 31 * *", "03-31 00:00"),
        ("0 0 1 JAN,jul *", "07-01 00:00"),
        ("0 0 13 * 5", "03-06 00:00"),  # two restricted day fields: either
        ("0 0 */2 * mon", "03-05 00:00"),  # a step restricts, so either again
        ("0 0 * * */3", "03-07 00:00"),
        ("@hourly", "03-04 11:00"),
        ("@midnight", "03-05 00:00"),
        ("@weekly", "03-08 00:00"),
        ("@monthly", "04-01 00:00"),
        ("@yearly", "01-01 00:00"),
        ("@every 1h30m", "03-04 11:50"),
        ("CRON_TZ=America/New_York 0 6 * * *", "03-04 11:00"),
    ],
)
def test_the_next_time_is_the_first_that_all_fields_allow(text: str, expected: str) -> None:
    assert next_times(text, START, 1) == [f"{expected}+0000"]


def test_a_time_that_a_clock_change_leaves_out_is_left_out() -> None:
    start = datetime(2026, 3, 7, 12, tzinfo=NEW_YORK)
    assert next_times("30 2 * * *", start, 2, NEW_YORK) == ["03-09 02:30-0400", "03-10 02:30-0400"]
    hourly = next_times("0 * * * *", datetime(2026, 3, 8, 0, 30, tzinfo=NEW_YORK), 3, NEW_YORK)
    assert hourly == ["03-08 01:00-0500", "03-08 03:00-0400", "03-08 04:00-0400"]


def test_a_time_that_comes_twice_is_due_twice() -> None:
    start = datetime(2026, 10, 31, 12, tzinfo=NEW_YORK)
    expected = ["11-01 01:30-0400", "11-01 01:30-0500", "11-02 01:30-0500"]
    assert next_times("30 1 * * *", start, 3, NEW_YORK) == expected


def test_a_day_without_a_midnight_is_not_left_out() -> None:
    cairo = ZoneInfo("Africa/Cairo")  # on 2026-04-24 its clocks go from 0:00 to 1:00
    start = datetime(2026, 4, 20, 12, tzinfo=cairo)
    assert next_times("0 5 24 4 *", start, 1, cairo) == ["04-24 05:00+0300"]


def test_a_day_that_does_not_exist_is_never_due() -> None:
    assert parse_schedule("59 23 31 2 *").next(START) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty spec string"),
        ("0 0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("30-10 * * * *", "beginning of range (30) beyond end of range (10): 30-10"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        (
            "x * * * *",
            'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax',
        ),
        ("* * * * -1", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        (
            "@every 5d",
            'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"',
        ),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=Mars 0 0 * * *", "provided bad location Mars: unknown time zone Mars"),
    ],
)
def test_a_fault_is_told_as_the_api_server_tells_it(text: str, fault: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert str(caught.value) == fault


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, 20).map(lambda n: f"*/{n}")
    one = st.one_of(number.map(str), span, step)
    return st.one_of(st.just("*"), st.lists(one, min_size=1, max_size=3).map(",".join))


schedules = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), st.just("*")).map(
    " ".join
)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1))


@given(schedules, moments)
@example("*/20,7 0 1 1 *", datetime(2026, 12, 31, 23, 59, 59))
def test_in_utc_it_agrees_with_another_reading_of_cron(text: str, moment: datetime) -> None:
    # The other reads day fields with steps as restricted too; with any weekday that is one rule.
    expected = next(CronSim(text, moment))
    assert parse_schedule(text).next(moment.replace(tzinfo=UTC)) == expected.replace(tzinfo=UTC)


@given(schedules, moments)
def test_nothing_is_due_between_a_moment_and_the_next_time(text: str, moment: datetime) -> None:
    schedule, start = parse_schedule(text, NEW_YORK), moment.replace(tzinfo=UTC)
    due = schedule.next(start)
    assert due is not None
    assert due > start
    # Whoever asks later, but before it, is told the same.
    for part in (2, 7):
        assert schedule.next(start + (due - start - timedelta(seconds=1)) / part) == due
