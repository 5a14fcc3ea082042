"""Sensors and the nightly schedule, evaluated as the daemon evaluates them, on an instance of their own."""

import os
import warnings
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import tiny_market
from dagster._utils.schedules import cron_string_iterator
from tiny_market import DAY_STAGES, NAME, day, file_of

from alpha_pipeline import digests, sensors
from alpha_pipeline.definitions import build_defs
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.plan import stale_day
from alpha_pipeline.resources import Pipeline
from alpha_pipeline.sqlite import cheap_commits
from alpha_pipeline.stages import STAGES

QUIET = {"loggers": {"progress": {}}}
FIRST, SECOND, THIRD = (day(index) for index in range(3))


@pytest.fixture(autouse=True)
def files_are_old(monkeypatch):
    """The files of these tests are seconds old; those of a desk are not."""
    monkeypatch.setattr(sensors, "_QUIET_SECONDS", 0.0)


class Daemon:
    """What the sensor daemon does with one workspace: evaluate, add partitions, make runs."""

    def __init__(self, workspace, instance):
        self.workspace, self.instance = workspace, instance
        self.defs = build_defs(workspace, [NAME])

    def tick(self, sensor):
        """Evaluate one sensor, and enter the partitions it asks for."""
        with dg.build_sensor_context(
            instance=self.instance,
            instance_ref=self.instance.get_ref(),
            definitions=self.defs,
            resources={"pipeline": Pipeline(root=str(self.workspace.root))},
        ) as context:
            tick = self.defs.resolve_sensor_def(f"{NAME}_{sensor}").evaluate_tick(context)
        for request in tick.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in tick.asset_events:
            self.instance.report_runless_asset_event(event)
        return tick

    def run(self, request):
        """Execute a request to its end, in this process."""
        job = self.defs.resolve_job_def(f"{NAME}_days")
        return job.execute_in_process(
            instance=self.instance,
            run_config=QUIET,
            partition_key=request.partition_key,
            asset_selection=request.asset_selection,
            tags={**request.tags, "dagster/run_key": request.run_key},
            raise_on_error=False,
        )

    def enqueue(self, request):
        """Enter a request's run without starting it."""
        return self.instance.create_run_for_job(
            self.defs.resolve_job_def(f"{NAME}_days"),
            tags={**request.tags, "dagster/run_key": request.run_key},
            asset_selection=frozenset(request.asset_selection),
        )

    def known(self):
        return sorted(self.instance.get_dynamic_partitions(f"{NAME}_days"))


@pytest.fixture
def instance():
    with warnings.catch_warnings(), cheap_commits(), dg.instance_for_test() as found:
        warnings.simplefilter("ignore")
        yield found


@pytest.fixture
def daemon(market, instance, monkeypatch):
    """Over a market that is wholly built, whose days Dagster does not know yet."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Daemon(market, instance)


@pytest.fixture
def empty(tmp_path, instance, monkeypatch):
    """Over two raw days of which nothing is built."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Daemon(tiny_market.make_workspace(tmp_path, days=2), instance)


def asked(tick):
    return {
        request.partition_key: [key.path[-1] for key in request.asset_selection]
        for request in tick.run_requests
    }


def test_new_file_becomes_a_partition_and_a_run_once(empty):
    tick = empty.tick("new_files")
    assert asked(tick) == {FIRST: DAY_STAGES, SECOND: DAY_STAGES}
    assert empty.known() == [FIRST, SECOND]
    again = empty.tick("new_files")
    assert not again.run_requests
    assert not again.dynamic_partitions_requests
    assert again.skip_message.startswith("no new day among the 2 in")


def test_file_that_arrives_later_is_asked_for_alone(empty):
    empty.tick("new_files")
    tiny_market.write_days(empty.workspace.raw(NAME), 3)
    assert asked(empty.tick("new_files")) == {THIRD: DAY_STAGES}


def test_two_files_of_one_day_are_one_request(empty):
    first = file_of(empty.workspace.raw(NAME), 0)
    first.with_name(f"TINY-{FIRST}.part2.mbp-10.dbn.zst").write_bytes(b"other")
    tick = empty.tick("new_files")
    assert sorted(request.partition_key for request in tick.run_requests) == [FIRST, SECOND]


def test_file_with_an_old_time_is_found(empty):
    empty.tick("new_files")
    tiny_market.write_days(empty.workspace.raw(NAME), 3)
    os.utime(file_of(empty.workspace.raw(NAME), 2), (0, 0))
    assert list(asked(empty.tick("new_files"))) == [THIRD]


def test_file_that_is_still_being_written_waits(empty, monkeypatch):
    """Its bytes are what counts, not the time it claims: copying tools set old times at the end."""
    monkeypatch.setattr(sensors, "_QUIET_SECONDS", 3600.0)
    os.utime(file_of(empty.workspace.raw(NAME), 0), (0, 0))
    tick = empty.tick("new_files")
    assert not tick.run_requests and not tick.dynamic_partitions_requests
    monkeypatch.setattr(sensors, "_QUIET_SECONDS", 0.0)
    assert FIRST in [request.partition_key for request in empty.tick("new_files").run_requests]


def test_tick_over_unchanged_files_reads_none_of_them(daemon, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    daemon.tick("stale_versions")
    reads = []
    monkeypatch.setattr(digests, "digest_file", reads.append)
    assert not daemon.tick("stale_versions").run_requests
    assert reads == []


def test_folder_without_files_is_a_reason_to_skip(empty):
    for index in range(2):
        file_of(empty.workspace.raw(NAME), index).unlink()
    assert "is empty, must hold MBP-10 files of tiny" in empty.tick("new_files").skip_message
    empty.workspace.raw(NAME).rmdir()
    for sensor in ("new_files", "stale_versions"):
        tick = empty.tick(sensor)
        assert not tick.run_requests
        assert tick.skip_message


def test_days_that_were_built_already_become_partitions_without_runs(daemon):
    """A new Dagster home beside an old store: what is up to date is not built again."""
    assert asked(daemon.tick("new_files")) == {}
    assert daemon.known() == [FIRST, SECOND, THIRD]


def test_up_to_date_days_are_left_alone(daemon):
    daemon.tick("new_files")
    daemon.tick("stale_versions")  # records what was built without the orchestrator
    assert daemon.tick("stale_versions").skip_message == "nothing new is stale"


def test_what_was_published_and_never_recorded_is_recorded_once(daemon):
    """A run that was killed between publishing and recording leaves the page behind."""
    daemon.tick("new_files")
    key = dg.AssetKey([NAME, "fxcache"])
    assert daemon.instance.get_materialized_partitions(key) == set()
    tick = daemon.tick("stale_versions")
    assert len(tick.asset_events) == len(DAY_STAGES) * 3
    assert not tick.run_requests
    assert daemon.instance.get_materialized_partitions(key) == {FIRST, SECOND, THIRD}
    assert not daemon.tick("stale_versions").asset_events


def test_newer_cache_format_asks_for_exactly_the_stale_days(daemon, monkeypatch):
    daemon.tick("new_files")
    monkeypatch.setattr(layout, "FXCACHE_VERSION", layout.FXCACHE_VERSION + 1)
    tiny_market.build_day(daemon.workspace, SECOND, ["fxcache"])
    tick = daemon.tick("stale_versions")
    assert asked(tick) == {FIRST: ["fxcache"], THIRD: ["fxcache"]}
    assert all("code version 4-" in request.tags["alpha/reason"] for request in tick.run_requests)


def test_both_sensors_do_not_ask_for_the_same_run(empty):
    """What new_files has asked for, and was entered as a run, stale_versions leaves alone, run or not."""
    for request in empty.tick("new_files").run_requests:
        empty.enqueue(request)
    assert asked(empty.tick("stale_versions")) == {}


def test_day_under_way_is_left_alone_unless_its_run_was_killed_long_ago(empty, monkeypatch):
    request = empty.tick("new_files").run_requests[0]
    empty.enqueue(request._replace(run_key="started by a person"))
    assert list(asked(empty.tick("stale_versions"))) == [SECOND]
    monkeypatch.setattr(sensors, "_LONGEST_RUN", timedelta(0))
    assert list(asked(empty.tick("stale_versions"))) == [FIRST, SECOND]


def test_failed_day_is_asked_for_again_when_its_file_is_mended(empty):
    path = file_of(empty.workspace.raw(NAME), 0)
    whole = path.read_bytes()
    path.write_bytes(b"not market data at all")
    requests = empty.tick("new_files").run_requests
    results = {request.partition_key: empty.run(request).success for request in requests}
    assert results == {FIRST: False, SECOND: True}
    assert asked(empty.tick("stale_versions")) == {}
    path.write_bytes(whole)
    tick = empty.tick("stale_versions")
    assert asked(tick) == {FIRST: DAY_STAGES}
    assert empty.run(tick.run_requests[0]).success
    assert stale_day(STAGES, tiny_market.scope(empty.workspace), FIRST) == []
    assert asked(empty.tick("stale_versions")) == {}


def test_replaced_file_is_asked_for_each_time_it_changes(daemon):
    daemon.tick("new_files")
    path = file_of(daemon.workspace.raw(NAME), 0)
    keys = set()
    for content in (b"first", b"second", b"first"):
        path.write_bytes(content)
        (request,) = daemon.tick("stale_versions").run_requests
        assert request.partition_key == FIRST
        keys.add(request.run_key)
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("date", "fires"), [("2024-03-08", "2024-03-09T00:30"), ("2024-03-11", "2024-03-11T23:30")]
)
def test_nightly_retrain_comes_after_the_close_in_winter_and_in_summer(built_market, date, fires):
    """The clocks of Chicago went forward on Sunday 2024-03-10; the schedule follows them."""
    from exchange_calendars import get_calendar

    schedule = build_defs(built_market, [NAME]).resolve_schedule_def(f"{NAME}_nightly_retrain")
    zone = schedule.execution_timezone
    morning = datetime.fromisoformat(date).replace(hour=9, tzinfo=ZoneInfo(zone))
    fired = next(cron_string_iterator(morning.timestamp(), schedule.cron_schedule, zone)).astimezone(UTC)
    assert fired.strftime("%Y-%m-%dT%H:%M") == fires
    assert fired > get_calendar("CMES").session_close(date)
    assert {key.path[-1] for key in schedule_selection(built_market, schedule)} == set(
        tiny_market.WHOLE_STAGES
    )


def schedule_selection(workspace, schedule):
    job = build_defs(workspace, [NAME]).resolve_job_def(schedule.job_name)
    return job.asset_layer.executable_asset_keys


def test_nightly_retrain_never_fires_on_a_weekend(built_market):
    schedule = build_defs(built_market, [NAME]).resolve_schedule_def(f"{NAME}_nightly_retrain")
    start = datetime(2024, 3, 7, 12, tzinfo=UTC).timestamp()
    times = cron_string_iterator(start, schedule.cron_schedule, schedule.execution_timezone)
    assert [next(times).strftime("%a %d") for _ in range(4)] == ["Thu 07", "Fri 08", "Mon 11", "Tue 12"]
