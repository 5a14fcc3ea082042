"""Whether a day is good enough to build on: each rule with its figure and its bound."""

from collections.abc import Callable
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
        return sum(self.report.skipped.values()) - self.report.skipped.get("other_instrument", 0)

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
        figure: computes it from what is known of the day.
        bound: the threshold it is held against.
        least: True when the bound is a minimum, False when it is a maximum.
        blocking: whether a failure stops what lies downstream.
        on_rows: the rule is about rows, and so asks nothing of an empty day.
    """

    name: str
    what: str
    figure: Callable[[DayFacts], float]
    bound: Callable[[QualityThresholds], float]
    least: bool = False
    blocking: bool = False
    on_rows: bool = True


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
    figure, bound = float(rule.figure(facts)), float(rule.bound(thresholds))
    spared = rule.on_rows and facts.empty
    passed = spared or (figure >= bound if rule.least else figure <= bound)
    wanted = "nothing is asked of an empty day" if spared else f"must be at {_side(rule)} {bound:g}"
    return Check(
        name=rule.name,
        passed=passed,
        figure=figure,
        threshold=bound,
        description=f"{rule.what}: {figure:g}, {wanted}",
        blocking=rule.blocking,
    )


def _side(rule: Rule) -> str:
    return "least" if rule.least else "most"


RULES: tuple[Rule, ...] = (
    Rule(
        name="skipped_fraction",
        what="share of the instrument's records that could not be used",
        figure=lambda day: day.record_share(day.skipped),
        bound=lambda t: t.max_skipped_fraction,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="off_tick_fraction",
        what="share of the instrument's records whose prices lie off the tick",
        figure=lambda day: day.record_share(day.report.skipped.get("off_tick", 0)),
        bound=lambda t: t.max_off_tick_fraction,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="truncated_files",
        what="files that end inside a record or a compressed frame",
        figure=lambda day: sum(source.truncated for source in day.report.sources),
        bound=lambda t: t.max_truncated_files,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="rows_unaccounted",
        what="difference between the rows of the tables and the report's counts",
        figure=lambda day: day.rows_unaccounted,
        bound=lambda _: 0,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="good_rows",
        what="snapshots with a good book",
        figure=lambda day: int(day.snapshots.states[GOOD]),
        bound=lambda t: t.min_rows,
        least=True,
        blocking=True,
    ),
    Rule(
        name="trades",
        what="trades in the tape",
        figure=lambda day: day.trades.rows,
        bound=lambda t: t.min_trades,
        least=True,
        blocking=True,
    ),
    Rule(
        name="crossed_fraction",
        what="share of snapshots in session whose book is locked or crossed",
        figure=lambda day: day.state_share(LOCKED, CROSSED),
        bound=lambda t: t.max_crossed_fraction,
        blocking=True,
    ),
    Rule(
        name="one_sided_fraction",
        what="share of snapshots in session with an empty side",
        figure=lambda day: day.state_share(EMPTY_SIDE),
        bound=lambda t: t.max_one_sided_fraction,
        blocking=True,
    ),
    Rule(
        name="suspect_fraction",
        what="share of snapshots in session whose book the source marks as possibly wrong",
        figure=lambda day: day.state_share(SUSPECT),
        bound=lambda t: t.max_suspect_fraction,
        blocking=True,
    ),
    Rule(
        name="rows_backward",
        what="rows received before the row above them",
        figure=lambda day: day.snapshots.backward,
        bound=lambda _: 0,
        blocking=True,
    ),
    Rule(
        name="backward_fraction",
        what="share of records out of receive-time order in their file",
        figure=lambda day: day.record_share(day.report.ts_recv_backward),
        bound=lambda t: t.max_backward_fraction,
    ),
    Rule(
        name="bad_timestamp_fraction",
        what="share of records whose receive time the source distrusts",
        figure=lambda day: day.record_share(day.report.bad_ts_recv),
        bound=lambda t: t.max_bad_timestamp_fraction,
    ),
    Rule(
        name="duplicate_fraction",
        what="share of records that repeat the one before byte for byte",
        figure=lambda day: day.record_share(day.report.duplicates),
        bound=lambda t: t.max_duplicate_fraction,
    ),
    Rule(
        name="sequence_gap_fraction",
        what="share of records behind a hole in the sequence numbers",
        figure=lambda day: day.record_share(day.report.sequence_gaps),
        bound=lambda t: t.max_sequence_gap_fraction,
    ),
    Rule(
        name="outside_touch_fraction",
        what="share of trades outside of the touch that they met",
        figure=lambda day: day.trade_share(day.trades.outside_touch),
        bound=lambda t: t.max_outside_touch_fraction,
    ),
    Rule(
        name="zero_size_fraction",
        what="share of trades of size 0",
        figure=lambda day: day.trade_share(day.trades.without_size),
        bound=lambda t: t.max_zero_size_fraction,
    ),
    Rule(
        name="session_coverage",
        what="share of the date's minutes in session that have a snapshot",
        figure=lambda day: day.snapshots.coverage,
        bound=lambda t: t.min_session_coverage,
        least=True,
    ),
    Rule(
        name="largest_gap_seconds",
        what="longest silence inside a session in seconds",
        figure=lambda day: day.report.largest_gap_ns / NANOS_PER_SECOND,
        bound=lambda t: t.max_gap_seconds,
    ),
    Rule(
        name="utc_dates",
        what="UTC dates on which the day's rows begin and end",
        figure=lambda day: len(day.report.utc_dates),
        bound=lambda _: 1,
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
