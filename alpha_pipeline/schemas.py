"""What each table that crosses a stage boundary must look like, checked on collected frames.

Schemas are pandera's. Three things that pandera 0.35 lets pass are settled here: a LazyFrame, whose values it
does not look at, is refused; infinities and NaN fail in float columns; an empty table fails, except where a
day without rows is a fact.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from alpha_core.errors import ConfigError, DataError
from alpha_core.shapes import LEVELS
from alpha_pipeline.results import Check

if TYPE_CHECKING:
    import pandera.polars as pandera
    import polars as pl
    from pandera.errors import SchemaError

EXAMPLES = 3
SHOWN_RULES = 4
SHOWN_COLUMNS = 4
SHOWN_CHARACTERS = 160


@dataclass(frozen=True, kw_only=True)
class TableRule:
    """How one kind of table is checked.

    Attributes:
        build: makes its pandera schema (pandera is imported only then).
        may_be_empty: a day without rows is a fact, a result without rows is an error.
    """

    build: Callable[[], "pandera.DataFrameSchema"]
    may_be_empty: bool


def validate(name: str, frame: "pl.DataFrame") -> list[Check]:
    """Hold a table against its schema: `validate_slices` of a table in one piece."""
    return validate_slices(name, [frame])


def validate_slices(name: str, slices: "Iterable[pl.DataFrame]") -> list[Check]:
    """Hold a table against its schema slice by slice, so that it need not fit into memory.

    Rules between a row and the one before it hold across slices; rules on the whole table (`unique`) need one.

    Args:
        name: key of TABLES.
        slices: the rows in order, collected.

    Returns:
        One blocking check `<name>_schema`; its figure is the number of violations, its description says what
        was expected, what was found and in which rows.

    Raises:
        ConfigError: no schema has that name.
        DataError: a slice is lazy, so that its values could not be checked.
    """
    if name not in TABLES:
        raise ConfigError(f"schema was {name!r}, must be one of {', '.join(TABLES)}")
    rule, findings = TABLES[name], _Findings()
    for frame in slices:
        findings.look_at(name, rule, frame)
    if not findings.rows:
        return [_check(name, 0 if rule.may_be_empty else 1, "it is empty, 0 rows")]
    return [_check(name, findings.count, findings.text() or f"{findings.rows} rows as expected")]


def _check(name: str, violations: int, found: str) -> Check:
    return Check(
        name=f"{name}_schema",
        passed=violations == 0,
        figure=float(violations),
        threshold=0.0,
        description=f"violations of the schema of {name}: {violations}, must be 0: {found}",
        blocking=True,
    )


@dataclass
class _Problem:
    """One broken rule: what was expected of which column, and what was found where.

    Attributes:
        expected: column and rule.
        count: violations so far.
        found: the first of them.
        rows: where those are; none for a rule on the table as such.
    """

    expected: str
    count: int = 0
    found: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def rank(self) -> tuple[list[int], str]:
        """What is told first: the table as such, then what is broken first; the same however a table is sliced."""
        return self.rows[:1], self.expected

    @property
    def sentence(self) -> str:
        where = f" in rows {', '.join(map(str, self.rows))}" if self.rows else ""
        more = f", {self.count} cases" if self.count > EXAMPLES else ""
        return f"{self.expected}, found {', '.join(self.found)[:SHOWN_CHARACTERS]}{where}{more}"


class _Findings:
    """What is wrong with a table, over its slices.

    Attributes:
        rows: rows looked at.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._schema: Any = None
        self._last: Any = None
        self._problems: dict[str, _Problem] = {}

    @property
    def count(self) -> int:
        return sum(problem.count for problem in self._problems.values())

    def text(self) -> str:
        problems = sorted(self._problems.values(), key=lambda problem: problem.rank)
        shown = "; ".join(problem.sentence for problem in problems[:SHOWN_RULES])
        more = f"; and {len(problems) - SHOWN_RULES} more rules" if len(problems) > SHOWN_RULES else ""
        return shown + more

    def look_at(self, name: str, rule: TableRule, frame: "pl.DataFrame") -> None:
        """The next rows; the last one of before comes along, for the rules between rows."""
        import polars as pl

        if isinstance(frame, pl.LazyFrame):
            raise DataError(f"table {name} is lazy and its values cannot be checked: collect it first")
        if frame.is_empty():
            return
        if self._schema is None:
            self._schema = _with_finite_floats(rule.build(), frame)
        known = 0 if self._last is None else 1
        joined = frame if self._last is None else pl.concat([self._last, frame])
        for error in _errors(self._schema, joined):
            self._note(error, joined, known)
        self._last = frame.tail(1)
        self.rows += frame.height

    def _note(self, error: "SchemaError", frame: "pl.DataFrame", known: int) -> None:
        """Count a broken rule's rows, but for the `known` ones of before; a rule on no row counts once a table."""
        from pandera.constants import CHECK_OUTPUT_KEY

        expected = f"{error.schema.name or 'table'} expected {_rule_name(error)}"
        problem = self._problems.get(expected) or _Problem(expected)
        if error.check_output is None:
            if not problem.count:
                problem.count, problem.found = 1, [str(error.failure_cases)]
        else:
            broken = np.flatnonzero(~error.check_output[CHECK_OUTPUT_KEY].to_numpy())
            broken = broken[broken >= known]
            problem.count += len(broken)
            for row in broken[: EXAMPLES - len(problem.found)].tolist():
                problem.found.append(_shown(error, frame, row))
                problem.rows.append(row - known + self.rows)
        if problem.count:
            self._problems[expected] = problem


def _errors(schema: "pandera.DataFrameSchema", frame: "pl.DataFrame") -> "Sequence[SchemaError]":
    """Every rule of the schema that the table breaks."""
    import pandera.polars as pandera
    from pandera.config import ValidationDepth, config_context

    try:
        # an environment variable could otherwise switch validation off
        with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
            schema.validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as errors:
        return errors.schema_errors
    return ()


def _rule_name(error: "SchemaError") -> str:
    check: Any = error.check
    return check if isinstance(check, str) else str(check.error or check.name or check)


def _shown(error: "SchemaError", frame: "pl.DataFrame", row: int) -> str:
    """The value of a column, or the values that a rule between columns compares."""
    if error.schema.name:
        return str(frame[str(error.schema.name)][row])
    check: Any = error.check
    between = error.schema.unique if isinstance(check, str) else check.title.split()
    more = " ..." if len(between) > SHOWN_COLUMNS else ""
    return " ".join(f"{column}={frame[column][row]}" for column in between[:SHOWN_COLUMNS]) + more


def _with_finite_floats(
    schema: "pandera.DataFrameSchema", frame: "pl.DataFrame"
) -> "pandera.DataFrameSchema":
    """The schema with one more rule for every float column, listed or not: no infinity, no NaN."""
    import pandera.polars as pandera
    import polars as pl
    import polars.selectors as cs

    def is_finite(data: Any) -> "pl.LazyFrame":
        return data.lazyframe.select(pl.col(data.key).is_finite())

    finite = pandera.Check(is_finite, name="finite")
    names = frame.select(cs.float()).columns
    for name in set(names) & set(schema.columns):
        schema.columns[name].checks.append(finite)
    unlisted = [] if schema.strict else [name for name in names if name not in schema.columns]
    return schema.add_columns({name: pandera.Column(None, finite, nullable=True) for name in unlisted})


def _row_check(name: str, expression: "pl.Expr") -> Any:
    """A rule between columns of one row or between rows; null counts as kept."""
    import pandera.polars as pandera

    def holds(data: Any) -> "pl.LazyFrame":
        return data.lazyframe.select(expression.fill_null(True))

    columns = " ".join(dict.fromkeys(expression.meta.root_names()))
    # pandera makes a JSON text of every whole row that fails: gigabytes when all rows of a slice do
    return pandera.Check(holds, name=name, title=columns, n_failure_cases=1)


def _snapshots() -> "pandera.DataFrameSchema":
    import pandera.polars as pandera
    import polars as pl

    from alpha_pipeline.ingest.events import CLOSED, GOOD
    from alpha_pipeline.ingest.records import ACTIONS, SIDES

    column, check, time = pandera.Column, pandera.Check, pl.Datetime("ns", "UTC")
    bid, ask = pl.col("bid_px_00"), pl.col("ask_px_00")
    good = pl.col("book_state") == GOOD
    levels = {
        f"{kind}_{level:02d}": column(
            pl.Int64 if kind.endswith("px") else pl.UInt32, nullable=kind.endswith("px")
        )
        for kind in ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")
        for level in range(LEVELS)
    }
    return pandera.DataFrameSchema(
        {
            "ts_event": column(time),
            "ts_recv": column(time),
            "sequence": column(pl.UInt32),
            "instrument_id": column(pl.UInt32),
            "action": column(pl.Categorical, check.isin(list(ACTIONS))),
            "side": column(pl.Categorical, check.isin(list(SIDES))),
            "price": column(pl.Int64, nullable=True),
            "size": column(pl.UInt32),
            **levels,
            "flags": column(pl.UInt8),
            "book_state": column(pl.UInt8, check.in_range(0, CLOSED)),
            "segment": column(pl.Int32, check.ge(0)),
        },
        checks=[
            _row_check("a good book has both sides, bid below ask", ~good | (bid < ask).fill_null(False)),
            *(
                _row_check(f"{side} level {level + 1} lies beyond level {level}", _beyond(side, level))
                for side in ("bid", "ask")
                for level in range(LEVELS - 1)
            ),
            _row_check("ts_recv never decreases", pl.col("ts_recv").diff() >= pl.duration()),
            _row_check("segment never decreases", pl.col("segment").diff() >= 0),
        ],
        strict=True,
        ordered=True,
    )


def _beyond(side: str, level: int) -> "pl.Expr":
    """The next level is absent, or farther from the touch than this one, which is then present."""
    import polars as pl

    near, far = pl.col(f"{side}_px_{level:02d}"), pl.col(f"{side}_px_{level + 1:02d}")
    beyond = far < near if side == "bid" else far > near
    return far.is_null() | beyond.fill_null(False)


def _trades() -> "pandera.DataFrameSchema":
    import pandera.polars as pandera
    import polars as pl

    column, check, time = pandera.Column, pandera.Check, pl.Datetime("ns", "UTC")
    return pandera.DataFrameSchema(
        {
            "ts_event": column(time),
            "ts_recv": column(time),
            "price": column(pl.Int64),
            "size": column(pl.UInt32),
            "aggressor": column(pl.Int8, check.isin([-1, 0, 1])),
            "bid_px": column(pl.Int64, nullable=True),
            "ask_px": column(pl.Int64, nullable=True),
            "sequence": column(pl.UInt32),
            "snapshot_row": column(pl.Int64, check.ge(0)),
        },
        checks=[
            _row_check("ts_recv never decreases", pl.col("ts_recv").diff() >= pl.duration()),
            _row_check("snapshot_row never decreases", pl.col("snapshot_row").diff() >= 0),
        ],
        strict=True,
        ordered=True,
    )


def _fxcache() -> "pandera.DataFrameSchema":
    import pandera.polars as pandera
    import polars as pl

    from alpha_pipeline.features.catalogue import FEATURE_NAMES

    column, check = pandera.Column, pandera.Check
    return pandera.DataFrameSchema(
        {
            "ts": column(),
            "segment": column(pl.Int32, check.ge(0)),
            "mid2": column(pl.Int32),
            **{name: column(pl.Float32) for name in FEATURE_NAMES},
        },
        checks=[
            _row_check("ts never decreases", pl.col("ts").to_physical().diff() >= 0),
            _row_check("segment never decreases", pl.col("segment").diff() >= 0),
        ],
    )


def _grid() -> "pandera.DataFrameSchema":
    import pandera.polars as pandera
    import polars as pl

    from alpha_pipeline.evaluation.grid import COLUMNS

    column, check = pandera.Column, pandera.Check
    ruled = {
        "cost": column(pl.Float64, check.ge(0)),
        "cost_ticks": column(pl.Float64, check.ge(0)),
        "threshold": column(pl.Float64, check.in_range(0, 0.5)),
        "episodes": column(pl.Int64, check.ge(1)),
        "sessions": column(pl.Int64, check.ge(1)),
        "mean_pnl_ticks": column(pl.Float64),
        "win_rate": column(pl.Float64, check.in_range(0, 1)),
        "trades_per_episode": column(pl.Float64, check.ge(0)),
        "max_drawdown_ticks": column(pl.Float64, check.ge(0)),
    }
    free = {name: column(nullable=True) for name in COLUMNS if name not in ruled}
    return pandera.DataFrameSchema(ruled | free, unique=["cost", "threshold", "sample"], strict=True)


def _folds() -> "pandera.DataFrameSchema":
    import pandera.polars as pandera
    import polars as pl

    column, check = pandera.Column, pandera.Check
    return pandera.DataFrameSchema(
        {
            "fold": column(pl.Int64, check.ge(0)),
            "train_rows": column(pl.Int64, check.ge(1)),
            "test_rows": column(pl.Int64, check.ge(1)),
        },
        unique=["fold"],
    )


TABLES: dict[str, TableRule] = {
    "snapshots": TableRule(build=_snapshots, may_be_empty=True),
    "trades": TableRule(build=_trades, may_be_empty=True),
    "fxcache": TableRule(build=_fxcache, may_be_empty=True),
    "grid": TableRule(build=_grid, may_be_empty=False),
    "folds": TableRule(build=_folds, may_be_empty=False),
}
"""Every schema by the name of its table."""
