"""Whether a day is good enough to build on: each rule with its figure and its bound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alpha_pipeline.ingest.config import QualityThresholds
from alpha_pipeline.ingest.events import GOOD
from alpha_pipeline.ingest.report import IngestReport
from alpha_pipeline.ingest.table_tally import TableTally
from alpha_pipeline.results import Check

if TYPE_CHECKING:
    import polars as pl

NANOS_PER_SECOND = 1e9


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One figure of a day held against one bound.

    Attributes:
        name: identity of the check.
        what: the figure in words, with its unit.
        figure: computes it from the table and the report.
        bound: the threshold it is held against.
        least: True when the bound is a minimum, False when it is a maximum.
        blocking: whether a failure stops what lies downstream.
        on_rows: the rule is about rows, and so asks nothing of a day without any.
    """

    name: str
    what: str
    figure: Callable[[TableTally, IngestReport], float]
    bound: Callable[[QualityThresholds, IngestReport], float]
    least: bool = False
    blocking: bool = False
    on_rows: bool = True


@dataclass(frozen=True, kw_only=True)
class QualityReport:
    """Judgement of one day.

    Attributes:
        checks: all rules, in the order of RULES.
        table: one row per rule (check, passed, figure, threshold, blocking, description).
        status: "ok", "empty" (no snapshot, nothing wrong) or "rejected" (a blocking rule failed).
    """

    checks: list[Check]
    table: "pl.DataFrame"
    status: str

    @property
    def usable(self) -> bool:
        """Whether later stages may build on the day."""
        return self.status == "ok"


def assess_day(tally: TableTally, report: IngestReport, thresholds: QualityThresholds) -> QualityReport:
    """Hold one day against the instrument's thresholds.

    An empty day (a holiday) is not at fault: it passes the rules on rows, and is no day to build on.

    Args:
        tally: what its snapshot table holds.
        report: what its ingestion counted.
        thresholds: the bounds.
    """
    checks = [_judge(rule, tally, report, thresholds) for rule in RULES]
    failed = any(check.blocking and not check.passed for check in checks)
    status = "rejected" if failed else report.status
    return QualityReport(checks=checks, table=_table(checks), status=status)


def _judge(rule: Rule, tally: TableTally, report: IngestReport, thresholds: QualityThresholds) -> Check:
    figure, bound = float(rule.figure(tally, report)), float(rule.bound(thresholds, report))
    spared = rule.on_rows and report.empty
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


def _share(part: int, whole: int) -> float:
    """A fraction of nothing is 0: rules on shares hold for a day without records."""
    return part / whole if whole else 0.0


def _skipped(report: IngestReport) -> int:
    return sum(report.skipped.values()) - report.skipped.get("other_instrument", 0)


RULES: tuple[Rule, ...] = (
    Rule(
        name="skipped_fraction",
        what="share of the instrument's records that could not be used",
        figure=lambda _, r: _share(_skipped(r), r.records_of_instrument),
        bound=lambda t, _: t.max_skipped_fraction,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="truncated_files",
        what="files that end inside a record or a compressed frame",
        figure=lambda _, r: sum(source.truncated for source in r.sources),
        bound=lambda t, r: len(r.sources) if t.allow_truncated else 0,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="rows_unaccounted",
        what="difference between the table's rows and the report's count",
        figure=lambda t, r: abs(t.rows - r.snapshots),
        bound=lambda _t, _r: 0,
        blocking=True,
        on_rows=False,
    ),
    Rule(
        name="good_rows",
        what="snapshots with a good book",
        figure=lambda t, _: t.states[GOOD],
        bound=lambda t, _: t.min_rows,
        least=True,
        blocking=True,
    ),
    Rule(
        name="trades",
        what="trades in the tape",
        figure=lambda _, r: r.trades,
        bound=lambda t, _: t.min_trades,
        least=True,
        blocking=True,
    ),
    Rule(
        name="crossed_fraction",
        what="share of snapshots whose book is locked or crossed",
        figure=lambda t, r: _share(r.crossed + r.locked, t.rows),
        bound=lambda t, _: t.max_crossed_fraction,
        blocking=True,
    ),
    Rule(
        name="one_sided_fraction",
        what="share of snapshots with an empty side",
        figure=lambda t, r: _share(r.one_sided, t.rows),
        bound=lambda t, _: t.max_one_sided_fraction,
        blocking=True,
    ),
    Rule(
        name="suspect_fraction",
        what="share of snapshots whose book the source marks as possibly wrong",
        figure=lambda t, r: _share(r.suspect, t.rows),
        bound=lambda t, _: t.max_suspect_fraction,
        blocking=True,
    ),
    Rule(
        name="rows_backward",
        what="rows received before the row above them",
        figure=lambda t, _: t.backward,
        bound=lambda _t, _r: 0,
        blocking=True,
    ),
    Rule(
        name="backward_fraction",
        what="share of records out of receive-time order in their file",
        figure=lambda _, r: _share(r.ts_recv_backward, r.records_of_instrument),
        bound=lambda t, _: t.max_backward_fraction,
    ),
    Rule(
        name="bad_timestamp_fraction",
        what="share of records whose receive time the source distrusts",
        figure=lambda _, r: _share(r.bad_ts_recv, r.records_of_instrument),
        bound=lambda t, _: t.max_bad_timestamp_fraction,
    ),
    Rule(
        name="duplicate_fraction",
        what="share of records that repeat the one before byte for byte",
        figure=lambda _, r: _share(r.duplicates, r.records_of_instrument),
        bound=lambda t, _: t.max_duplicate_fraction,
    ),
    Rule(
        name="sequence_gap_fraction",
        what="share of records behind a hole in the sequence numbers",
        figure=lambda _, r: _share(r.sequence_gaps, r.records_of_instrument),
        bound=lambda t, _: t.max_sequence_gap_fraction,
    ),
    Rule(
        name="session_coverage",
        what="share of the day's open minutes that have a snapshot",
        figure=lambda t, _: t.coverage,
        bound=lambda t, _: t.min_session_coverage,
        least=True,
    ),
    Rule(
        name="largest_gap_seconds",
        what="longest silence inside a session in seconds",
        figure=lambda _, r: r.largest_gap_ns / NANOS_PER_SECOND,
        bound=lambda t, _: t.max_gap_seconds,
    ),
    Rule(
        name="utc_dates",
        what="UTC dates on which the day's rows begin and end",
        figure=lambda _, r: len(r.utc_dates),
        bound=lambda _t, _r: 1,
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
