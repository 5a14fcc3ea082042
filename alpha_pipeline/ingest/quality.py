"""Whether a day is good enough to build on: each rule with its figure and its bound."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alpha_pipeline.ingest.config import QualityThresholds
from alpha_pipeline.ingest.events import CROSSED, EMPTY_SIDE, GOOD, LOCKED, SUSPECT
from alpha_pipeline.ingest.report import EMPTY, IngestReport
from alpha_pipeline.ingest.table_tally import SnapshotTally, TradeTally
from alpha_pipeline.results import Check

if TYPE_CHECKING:
    import polars as pl

NANOS_PER_SECOND = 1e9
NANOS_PER_HOUR = 3600 * NANOS_PER_SECOND


@dataclass(frozen=True, kw_only=True)
class DayFacts:
    """What is known of a day.

    Attributes:
        report: what its ingestion counted.
        snapshots: what its snapshot table holds.
        trades: what its trade tape holds.
    """

    report: IngestReport
    snapshots: SnapshotTally
    trades: TradeTally

    @property
    def empty(self) -> bool:
        """Whether there is nothing to judge: no snapshot, or a date without any session."""
        return self.report.empty or self.snapshots.holiday

    def record_share(self, records: int) -> float:
        """A part of the instrument's records; of none, nothing."""
        whole = self.report.records_of_instrument
        return records / whole if whole else 0.0

    def state_share(self, *states: int) -> float:
        """Snapshots in session with these book states as a part of all in session."""
        whole = self.snapshots.open_rows
        return int(self.snapshots.states[list(states)].sum()) / whole if whole else 0.0

    def trade_share(self, trades: int) -> float:
        """A part of the trades."""
        return trades / self.trades.rows if self.trades.rows else 0.0

    @property
    def skipped(self) -> int:
        """The instrument's records that could not be used."""
        return sum(self.report.losses.values())

    @property
    def reasons(self) -> str:
        """Why records could not be used, with their numbers."""
        whole = self.report.records_of_instrument
        return f"of {whole} records {_listed(self.report.losses)}" if self.report.losses else ""

    @property
    def set_aside(self) -> dict[str, int]:
        """What the sources set aside beside records, by name."""
        return dict(sum((Counter(source.counts) for source in self.report.sources), Counter[str]()))

    @property
    def records_without_book(self) -> int:
        """On a day without snapshots, the instrument's records and whatever its sources set aside."""
        lost = self.report.records_of_instrument + sum(self.set_aside.values())
        return lost if self.report.empty else 0

    @property
    def rows_unaccounted(self) -> int:
        """Rows by which the two tables differ from what the report says."""
        snapshots = abs(self.snapshots.rows - self.report.snapshots)
        return snapshots + abs(self.trades.rows - self.report.trades)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One figure of a day held against one bound.

    Attributes:
        name: identity of the check.
        what: the figure in words, with its unit.
        why: what is wrong with a day that does not hold.
        figure: computes it from what is known of the day.
        bound: name of the threshold it is held against, or a number that is nobody's choice.
        least: True when the bound is a minimum, False when it is a maximum.
        blocking: whether a failure stops what lies downstream.
        on_rows: the rule is about rows, and so asks nothing of an empty day.
        detail: what the figure is made of, in words, for a person who must find the cause; "" when of nothing.
    """

    name: str
    what: str
    why: str
    figure: Callable[[DayFacts], float]
    bound: str | int
    least: bool = False
    blocking: bool = False
    on_rows: bool = True
    detail: Callable[[DayFacts], str] = lambda _: ""


@dataclass(frozen=True, kw_only=True)
class QualityReport:
    """Judgement of one day.

    Attributes:
        checks: all rules, in the order of RULES.
        table: one row per rule (check, passed, figure, threshold, blocking, description).
        status: "ok", "empty" (nothing to judge, nothing wrong) or "rejected" (a blocking rule failed).
    """

    checks: list[Check]
    table: "pl.DataFrame"
    status: str

    @property
    def usable(self) -> bool:
        """Whether later stages may build on the day."""
        return self.status == "ok"


def assess_day(facts: DayFacts, thresholds: QualityThresholds) -> QualityReport:
    """Hold one day against the instrument's thresholds.

    An empty day (a holiday) is not at fault: it passes the rules on rows, and is no day to build on.
    """
    checks = [_judge(rule, facts, thresholds) for rule in RULES]
    failed = any(check.blocking and not check.passed for check in checks)
    status = "rejected" if failed else EMPTY if facts.empty else facts.report.status
    return QualityReport(checks=checks, table=_table(checks), status=status)


def _judge(rule: Rule, facts: DayFacts, thresholds: QualityThresholds) -> Check:
    figure, bound = float(rule.figure(facts)), _bound(rule, thresholds)
    spared = rule.on_rows and facts.empty
    passed = spared or (figure >= bound if rule.least else figure <= bound)
    wanted = "nothing is asked of an empty day" if spared else f"must be at {_side(rule)} {bound:g}"
    detail = f" ({told})" if (told := rule.detail(facts)) else ""
    return Check(
        name=rule.name,
        passed=passed,
        figure=figure,
        threshold=bound,
        description=f"{rule.what}: {figure:g}{detail}, {wanted}",
        blocking=rule.blocking,
    )


def _bound(rule: Rule, thresholds: QualityThresholds) -> float:
    return float(getattr(thresholds, rule.bound) if isinstance(rule.bound, str) else rule.bound)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _dates(report: IngestReport) -> str:
    return " to ".join(report.utc_dates)


def _side(rule: Rule) -> str:
    return "least" if rule.least else "most"


RULES: tuple[Rule, ...] = (
    Rule(
        name="skipped_fraction",
        what="share of the instrument's records that could not be used",
        why="the file does not hold what its instrument says",
        figure=lambda day: day.record_share(day.skipped),
        bound="max_skipped_fraction",
        blocking=True,
        on_rows=False,
        detail=lambda day: day.reasons,
    ),
    Rule(
        name="off_tick_fraction",
        what="share of the instrument's records whose prices lie off the tick",
        why="`tick_size` is wrong: every price feature would be",
        figure=lambda day: day.record_share(day.report.skipped.get("off_tick", 0)),
        bound="max_off_tick_fraction",
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="truncated_files",
        what="files that end inside a record or a compressed frame",
        why="an unknown part of the day is missing",
        figure=lambda day: sum(source.truncated for source in day.report.sources),
        bound="max_truncated_files",
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="repeated_fraction",
        what="share of records that an earlier file of the day holds as well",
        why="downloads overlap: trades would count twice",
        figure=lambda day: day.record_share(day.report.repeats),
        bound="max_repeated_fraction",
        blocking=True,
        on_rows=False,
        detail=lambda day: (
            f"{day.report.repeats} records of {', '.join(day.report.source_digests)}"
            if day.report.repeats
            else ""
        ),
    ),
    Rule(
        name="rows_unaccounted",
        what="difference between the rows of the tables and the report's counts",
        why="the tables are not those that ingestion wrote",
        figure=lambda day: day.rows_unaccounted,
        bound=0,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="records_without_book",
        what="records of a day without any snapshot from which no book came",
        why="the day is not empty but lost: a log without its snapshot, for one",
        figure=lambda day: day.records_without_book,
        bound=0,
        blocking=True,
        on_rows=False,
        detail=lambda day: _listed(day.report.losses | day.set_aside) if day.report.empty else "",
    ),
    Rule(
        name="good_rows",
        what="snapshots with a good book",
        why="too little to learn from",
        figure=lambda day: int(day.snapshots.states[GOOD]),
        bound="min_rows",
        least=True,
        blocking=True,
    ),
    Rule(
        name="trades",
        what="trades in the tape",
        why="no fills can be modelled",
        figure=lambda day: day.trades.rows,
        bound="min_trades",
        least=True,
        blocking=True,
    ),
    Rule(
        name="crossed_fraction",
        what="share of snapshots in session whose book is locked or crossed",
        why="the book is built wrongly, or most of the day is an auction",
        figure=lambda day: day.state_share(LOCKED, CROSSED),
        bound="max_crossed_fraction",
        blocking=True,
    ),
    Rule(
        name="one_sided_fraction",
        what="share of snapshots in session with an empty side",
        why="the book is built wrongly, or nobody makes the market",
        figure=lambda day: day.state_share(EMPTY_SIDE),
        bound="max_one_sided_fraction",
        blocking=True,
    ),
    Rule(
        name="suspect_fraction",
        what="share of snapshots in session whose book the source marks as possibly wrong",
        why="the source lost data and says so",
        figure=lambda day: day.state_share(SUSPECT),
        bound="max_suspect_fraction",
        blocking=True,
    ),
    Rule(
        name="rows_backward",
        what="rows received before the row above them",
        why="a feature would see what comes after it",
        figure=lambda day: day.snapshots.backward,
        bound=0,
        blocking=True,
    ),
    Rule(
        name="span_hours",
        what="hours from the day's first row to its last",
        why="the file holds more than a day: `alpha split` makes one file per UTC date of it",
        figure=lambda day: day.report.span_ns / NANOS_PER_HOUR,
        bound="max_span_hours",
        blocking=True,
        detail=lambda day: _dates(day.report),
    ),
    Rule(
        name="backward_fraction",
        what="share of records out of receive-time order in their file",
        why="rows were sorted; the recording is of poor quality",
        figure=lambda day: day.record_share(day.report.ts_recv_backward),
        bound="max_backward_fraction",
    ),
    Rule(
        name="bad_timestamp_fraction",
        what="share of records whose receive time the source distrusts",
        why="times within an event are uncertain",
        figure=lambda day: day.record_share(day.report.bad_ts_recv),
        bound="max_bad_timestamp_fraction",
    ),
    Rule(
        name="duplicate_fraction",
        what="share of records that repeat the one before byte for byte",
        why="the recorder writes records twice; trades would count twice",
        figure=lambda day: day.record_share(day.report.duplicates),
        bound="max_duplicate_fraction",
    ),
    Rule(
        name="sequence_gap_fraction",
        what="share of records behind a hole in the sequence numbers",
        why="data were lost, unless the channel is shared with other instruments",
        figure=lambda day: day.record_share(day.report.sequence_gaps),
        bound="max_sequence_gap_fraction",
    ),
    Rule(
        name="outside_touch_fraction",
        what="share of trades outside of the touch that they met",
        why="trades and books are not of one clock, or not of one market",
        figure=lambda day: day.trade_share(day.trades.outside_touch),
        bound="max_outside_touch_fraction",
    ),
    Rule(
        name="zero_size_fraction",
        what="share of trades of size 0",
        why="the recorder does not know what was traded",
        figure=lambda day: day.trade_share(day.trades.without_size),
        bound="max_zero_size_fraction",
    ),
    Rule(
        name="session_coverage",
        what="share of the date's minutes in session that have a snapshot",
        why="the download or the recorder stopped half-way",
        figure=lambda day: day.snapshots.coverage,
        bound="min_session_coverage",
        least=True,
    ),
    Rule(
        name="largest_gap_seconds",
        what="longest silence inside a session in seconds",
        why="the recorder slept, or the market stopped without its calendar knowing",
        figure=lambda day: day.report.largest_gap_ns / NANOS_PER_SECOND,
        bound="max_gap_seconds",
    ),
    Rule(
        name="utc_dates",
        what="UTC dates on which the day's rows begin and end",
        why="the file is not cut by UTC date, its neighbours may hold the same rows",
        figure=lambda day: len(day.report.utc_dates),
        bound=1,
        detail=lambda day: _dates(day.report),
    ),
)

CHECKS: dict[str, bool] = {rule.name: rule.blocking for rule in RULES}
"""Names of the checks that `assess_day` returns, with True for the blocking ones."""


def _table(checks: list[Check]) -> "pl.DataFrame":
    import polars as pl

    return pl.DataFrame(
        {
            "check": [check.name for check in checks],
            "passed": [check.passed for check in checks],
            "figure": [check.figure for check in checks],
            "threshold": [check.threshold for check in checks],
            "blocking": [check.blocking for check in checks],
            "description": [check.description for check in checks],
        }
    )


PAGE = """# Data quality: what a day must meet

Made by `python -m alpha_pipeline.ingest.quality > docs/data-quality.md`; edit it there.

Every day is held against these rules before anything is built on it. A rule that rejects stops what lies behind its
day, and no other day; a rule that warns is shown. Bounds are set in `[quality]` of `instruments/<name>.toml`; unknown
keys are refused. A relaxed bound has all days judged again and rebuilds what lies behind the days it lets pass.

{table}

Two more checks reject: `snapshots_schema`, when a row of the table breaks its schema, and `day_of_records`, when the
name of a file says another date than its records, be they used or outside the dates of the symbol's mapping.

Several instruments in one file are no fault: records that the file maps to another symbol are left out, and a day on
which ours has none is empty. Records whose id the file maps to no symbol are a loss, since they may be the
instrument's: they count among those that could not be used. A file without any mapping for its records is refused.

A day whose file names the instrument and has no record of it, or a date on which its calendar has no session, is
*empty*: nothing is asked of its rows, it has a cache of 0 rows, it is no day of any sample, and the days around it are
what they are without it. Shares of snapshots are of those in session. Minutes and sessions are those of the
instrument's calendar: half days, holidays and the changes of the clocks are known.

`alpha quality --instrument NAME` lists the days, `--html FILE` writes them as a page, `--json` as data; the report of
a run has the same table. On the page of the orchestrator each day's `data_quality` shows its rules, its ingest report,
and charts of snapshots by minute, silences, books that cannot be decided on, and spreads.
"""


def render() -> str:
    """The rules as the Markdown page docs/data-quality.md."""
    lines = ["| rule | figure | bound, its default | outcome | because |", "|---|---|---|---|---|"]
    for rule in RULES:
        side, value = _side(rule), f"{_bound(rule, QualityThresholds()):g}"
        bound = f"`{rule.bound}` {value}" if isinstance(rule.bound, str) else f"at {side} {value}"
        outcome = "rejects" if rule.blocking else "warns"
        lines.append(f"| `{rule.name}` | {rule.what} | {bound} | {outcome} | {rule.why} |")
    return PAGE.format(table="\n".join(lines))


if __name__ == "__main__":
    print(render(), end="")
