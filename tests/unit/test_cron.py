"""When cron texts and intervals come: by a slow reading of every minute, over zones and years."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from chong.worker.cron import CronMoments
from chong.worker.options import DefinitionError, Options, options_from_json, read_options
from chong.worker.schedules import Cron, Every, Timing, moments_of, read_schedule

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ZONES = sorted(
    name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))
)
YEARS = (1980, 2037)


@cache
def shifts(zone):
    """The days on which its clocks are set, by looking at each day."""
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in YEARS)
    days = [first + n * DAY for n in range((last - first).days)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    return [day for day, before, after in zip(days, offsets, offsets[1:], strict=False) if before != after]


@st.composite
def days_of_zones(draw, count=3):
    """A zone and a moment: mostly a day or so before its clocks are set."""
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    found = shifts(zone)
    if found and draw(st.integers(0, 9)):
        day = draw(st.sampled_from(found))
    else:
        day = datetime(draw(st.integers(*YEARS)), draw(st.integers(1, 12)), draw(st.integers(1, 28)), tzinfo=UTC)
    return zone, day - draw(st.integers(0, 2880)) * MINUTE


def all_after(moments, begin, end):
    found = []
    while (begin := moments.after(begin)) is not None and begin <= end:
        found.append(begin)
    return found


def ran(begin, end, zone, minutes, hours, *, is_fixed):
    """The oracle: it looks at each minute that passes, and remembers which readings have had their turn.

    A fixed reading that the minute before and this one have between them was left out: it has its turn now.
    """
    found, had = [], set()
    moment = begin - 2 * DAY
    before = None
    while moment <= end:
        reading = moment.astimezone(zone).replace(tzinfo=None, second=0)
        shown = [reading]
        if before is not None and is_fixed:
            shown = [before + n * MINUTE for n in range(1, max(1, (reading - before) // MINUTE) + 1)] or shown
            if reading <= before:
                shown = [reading]
        wanted = [each for each in shown if each.minute in minutes and each.hour in hours]
        if wanted and (not is_fixed or any(each not in had for each in wanted)) and moment > begin:
            found.append(moment)
        had.update(wanted)
        before, moment = reading, moment + MINUTE
    return found


def is_whole(zone, begin, end):
    """Whether its offsets are whole minutes: some were not, in the days before that."""
    return all(
        (begin + n * DAY).astimezone(zone).utcoffset() % MINUTE == timedelta() for n in range((end - begin).days + 1)
    )


class TestZones:
    @settings(max_examples=40)
    @given(days_of_zones(), st.integers(0, 23), st.integers(0, 59))
    @example((ZoneInfo("Europe/Berlin"), datetime(2026, 3, 28, tzinfo=UTC)), 2, 30)
    @example((ZoneInfo("Europe/Berlin"), datetime(2026, 10, 24, tzinfo=UTC)), 2, 30)
    @example((ZoneInfo("Australia/Lord_Howe"), datetime(2026, 10, 3, tzinfo=UTC)), 2, 15)
    def test_a_daily_task_runs_once_on_each_day(self, where, hour, minute):
        """Whatever the clocks do; only a day that a zone has left out as a whole is made up for on the next one."""
        zone, begin = where
        assume(is_whole(zone, begin, begin + 5 * DAY))
        begin = datetime.combine(begin.astimezone(zone).date(), datetime.min.time(), tzinfo=zone).astimezone(UTC)
        found = all_after(CronMoments(f"{minute} {hour} * * *", zone.key), begin - MINUTE, begin + 4 * DAY)
        dates = [moment.astimezone(zone).date() for moment in found]
        days = {(begin + n * timedelta(hours=1)).astimezone(zone).date() for n in range(4 * 24)}
        whole = sorted(days)[1:-1]
        skips = any(later - earlier != DAY for earlier, later in zip(sorted(days), sorted(days)[1:], strict=False))
        assert found == sorted(set(found))
        assert skips or [dates.count(day) for day in whole] == [1] * len(whole)

    @settings(max_examples=40)
    @given(
        days_of_zones(),
        st.sets(st.integers(0, 59), min_size=1, max_size=4),
        st.sets(st.integers(0, 23), min_size=1, max_size=6),
    )
    def test_fixed_times_are_those_of_a_slow_reading(self, where, minutes, hours):
        """None is lost, none doubled: what a clock leaves out runs right after the gap, what it repeats runs once."""
        zone, begin = where
        end = begin + 3 * DAY
        assume(is_whole(zone, begin - 2 * DAY, end))
        text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
        expected = ran(begin, end, zone, minutes, hours, is_fixed=True)
        assert all_after(CronMoments(text, zone.key), begin, end) == expected

    @settings(max_examples=40)
    @given(days_of_zones(), st.sampled_from([1, 7, 15, 20, 30]), st.sampled_from(["*", "*/2", "1-3", "0,2,23"]))
    @example((ZoneInfo("Australia/Lord_Howe"), datetime(2026, 10, 3, tzinfo=UTC)), 15, "1-3")
    def test_intervals_go_by_the_time_that_passes(self, where, step, hour):
        """In a gap nothing is to be run, and what is repeated runs again."""
        zone, begin = where
        end = begin + 2 * DAY
        assume(is_whole(zone, begin - 2 * DAY, end))
        hours = {"*": range(24), "*/2": range(0, 24, 2), "1-3": range(1, 4), "0,2,23": (0, 2, 23)}[hour]
        found = all_after(CronMoments(f"*/{step} {hour} * * *", zone.key), begin, end)
        assert found == ran(begin, end, zone, range(0, 60, step), hours, is_fixed=False)

    def test_both_nights_in_berlin(self):
        """As the page of tasks tells it."""
        zone = "Europe/Berlin"
        spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
        fixed = CronMoments("30 2 * * *", zone)
        assert fixed.after(spring) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
        assert all_after(fixed, autumn, autumn + DAY) == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]
        assert len(all_after(CronMoments("*/30 2 * * *", zone), spring, spring + DAY)) == 0
        assert len(all_after(CronMoments("*/30 2 * * *", zone), autumn, autumn + DAY)) == 4

    def test_a_repeated_hour_of_one_day_in_the_year_comes_twice(self):
        """Asked long before it."""
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        found = all_after(CronMoments("*/30 2 25 10 *", "Europe/Berlin"), begin, begin + 364 * DAY)
        assert [moment.strftime("%H:%M") for moment in found] == ["00:00", "00:30", "01:00", "01:30"]


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "first"),
        [
            ("@daily", "2026-01-02T00:00"), ("@hourly", "2026-01-01T13:00"),
            ("0 9 * * MON-FRI", "2026-01-02T09:00"),
            ("0 0 L * *", "2026-01-31T00:00"), ("0 0 * * FRI#2", "2026-01-09T00:00"),
            ("0 0 29 2 *", "2028-02-29T00:00"),
            ("5-10/5 1 * JUN *", "2026-06-01T01:05"), ("0 0 * * 5L", "2026-01-30T00:00"),
        ],
    )  # fmt: skip
    def test_names_ranges_steps_and_last_days(self, text, first):
        """What the library reads."""
        found = CronMoments(text, "UTC").after(datetime(2026, 1, 1, 12, tzinfo=UTC))
        assert found.isoformat()[:16] == first

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("0 0 30 2 *", "expected a time that comes, got '0 0 30 2 *', which never does"),
            ("0 0 31 2,4 *", "which never does"),
            ("61 * * * *", "got '61 * * * *': a bad minute"),
            ("0 0 32 * *", "a bad day-of-month"),
            ("0 3 * *", "4 fields"),
            ("0 0 3 * * *", "6 fields"),
            ("@dayly", "did you mean @daily?"),
            ("@reboot", "expected one of @yearly"),
            (Cron("0 3 * * *", tz="Europe/Berln"), "got 'Europe/Berln', did you mean 'Europe/Berlin'?"),
            (Cron("0 3 * * *", tz="../../etc/passwd"), "expected a time zone"),
            (Cron("*/5 * * * *", jitter="5m"), "jitter: expected less than the 300 s between two instants, got '5m'"),
            (Cron("0 3 * * *", start="2026-02-01", end="2026-01-01"), "end: expected a time behind the start"),
            (Cron("0 0 29 2 *", start="2026-01-01", end="2027-01-01"), "expected an instant between start and end"),
            (Every("10s", jitter=10), "jitter: expected less than the 10 s"),
            (Every("0.5s"), "expected at least 1s"),
            (Every("10s", start="soon"), "start: expected a time such as"),
            ([], "expected 1 to 100 schedules, got 0"),
            ([5], "expected a cron text, Cron or Every, got 5"),
            (17, "expected a cron text, Cron, Every or a list of these, got 17"),
        ],
    )
    def test_a_bad_one_is_refused_in_one_line(self, value, said):
        """When the module is loaded: with what was expected and what was got."""
        with pytest.raises(DefinitionError) as raised:
            read_options("t", {"schedule": value})
        assert said in str(raised.value)
        assert str(raised.value).startswith("task 't': schedule: ")
        assert "\n" not in str(raised.value)

    @given(st.text("0123456789*/-,#LWMONJAN@ ", max_size=30) | st.text(max_size=12))
    def test_whatever_is_written_is_read_or_refused(self, text):
        """Nothing else comes of it."""
        try:
            (timing,) = read_schedule(text)
        except ValueError:
            return
        assert moments_of(timing).after(datetime(2026, 1, 1, tzinfo=UTC)) is not None

    def test_several_travel_as_json(self):
        """Each once; `every` is the short form of one of them."""
        options = read_options(
            "t",
            {"every": "30s", "schedule": ["0 3 * * *", Cron("0 3 * * *"), Every(30), Cron("@daily", tz="Asia/Tokyo")]},
        )
        assert options.timings == (
            Timing(every=30.0), Timing(cron="0 3 * * *"), Timing(cron="@daily", tz="Asia/Tokyo"),
        )  # fmt: skip
        assert options_from_json(json.loads(json.dumps(asdict(options)))) == options
        assert Options().timings == ()


class TestBounds:
    def test_instants_lie_within_start_and_end(self):
        """Both included; what has no zone is in the schedule's."""
        (timing,) = read_schedule(Cron("0 3 * * *", tz="Asia/Tokyo", start="2026-01-05 03:00", end="2026-01-06 03:00"))
        found = all_after(moments_of(timing), datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
        assert [moment.isoformat()[:16] for moment in found] == ["2026-01-04T18:00", "2026-01-05T18:00"]

    @settings(max_examples=40)
    @given(st.sampled_from(["*/7 * * * *", "0 3 * * *", "0 0 1 * *"]), st.integers(0, 50_000), st.integers(1, 20))
    def test_the_newest_are_the_last_of_all(self, text, minutes, limit):
        """However far back they lie."""
        moments = moments_of(Timing(cron=text))
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        now = begin + minutes * MINUTE
        assert moments.newest(begin, now, limit) == all_after(moments, begin, now)[-limit:]
