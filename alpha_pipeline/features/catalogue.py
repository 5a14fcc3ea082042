"""The 40 features: name, group, formula, unit, source and the function that computes them.

To add a feature, write a function of `Rows` and add an entry here; the builder digest then changes and
caches rebuild. `python -m alpha_pipeline.features.catalogue` prints the table that `docs/features.md` holds.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from alpha_core.shapes import FEATURES
from alpha_pipeline.features.book_shape import book_shape
from alpha_pipeline.features.columns import COLUMNS
from alpha_pipeline.features.config import SAMPLER_KINDS
from alpha_pipeline.features.dynamics import LOOKBACK_ROWS, dynamics
from alpha_pipeline.features.order_flow import delta_ofi, raw_ofi
from alpha_pipeline.features.rows import Rows
from alpha_pipeline.features.time_encoding import PERIODS_NS, time_encoding

FeatureFunction = Callable[[Rows], NDArray]

CONT = "Cont, Kukanov, Stoikov 2014"
XU = "Xu, Gould, Howison 2019"
OWN = "own definition"

INTRODUCTION = """\
# Features of a cached row

Made by `python -m alpha_pipeline.features.catalogue > docs/features.md`; edit it there.

Prices are in ticks: b_i, a_i prices and B_i, A_i sizes at level i, m the mid, e_i the order flow at level
i as `alpha_pipeline/features/order_flow.py` defines it. A row is a decision point; dt is the time since the
previous row of its segment, by receive time. Values are float32 and unnormalised; none looks ahead of its
row, and no row knows of another segment."""

SAMPLER_NOTE = """\
A segment's first good snapshot always is a row and begins everything anew. A bar closes with the snapshot that
fills it, and what its last trades bring beyond the bound is not carried on. One tick times one lot is
`tick_size` x `multiplier` of the instrument in money.

An imbalance bar of T trades with signed flows x (+1, -1 or, of unknown aggressor, 0, times what `imbalance.flow`
counts) closes when |sum of x| >= E[T] |E[x]| and T >= `min_trades`, or when T >= `max_trades`. Both expectations are
averages over the segment's earlier bars with half-life `half_life_bars`, E[T] held inside the two bounds; the first
bar closes at `expected_trades`. Source: Lopez de Prado 2018, section 2.3.2."""

GROUPS = {
    "book_shape": "The book of the row alone. An absent level has size 0, hence no weight; a ratio whose "
    "denominator is 0 is 0.",
    "raw_ofi": "Sums over the good events and the trades in (previous row, this row]; integers, exact; 0 on "
    "a segment's first row. An absent level counts as no quote: size 0, beyond every price.",
    "delta_ofi": "`raw_ofi` minus its value on the previous row of the segment; 0 on a segment's first row.",
    "dynamics": "Memory of the segment's earlier rows. An EMA is seeded by its first observation, which is "
    "the segment's second row.",
    "time": "Phase of the time since the previous row; 0 and 1 on a segment's first row.",
}


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One column of the cache.

    Attributes:
        name: column name.
        group: key of GROUPS.
        formula: as text.
        unit: of the float32 value, which is unnormalised.
        source: where the definition comes from.
        function: computes [R, K] from rows; the feature is its column `column`.
        column: see `function`.
    """

    name: str
    group: str
    formula: str
    unit: str
    source: str
    function: FeatureFunction
    column: int


def _shape(column: int, name: str, formula: str, unit: str, source: str) -> Feature:
    return Feature(
        name=name,
        group="book_shape",
        formula=formula,
        unit=unit,
        source=source,
        function=book_shape,
        column=column,
    )


def _shapes() -> list[Feature]:
    imbalances = [
        (f"queue_imbalance_{i}", f"(B_{i} - A_{i}) / (B_{i} + A_{i})", "1", "Gould, Bonart 2016")
        for i in range(1, 6)
    ]
    rows = [
        ("spread", "a_1 - b_1", "ticks", OWN),
        ("microprice_minus_mid", "(a_1 B_1 + b_1 A_1) / (B_1 + A_1) - m", "ticks", "Gatheral, Oomen 2010"),
        *imbalances,
        ("total_imbalance", "(B - A) / (B + A), sizes of all 10 levels summed", "1", OWN),
        ("log1p_depth", "ln(1 + B + A), sizes of all 10 levels summed", "ln lots", OWN),
        (
            "book_aggression",
            "(D_a - D_b) / (D_a + D_b), D = size-weighted mean distance of a side from m",
            "1",
            "centre of mass of the book",
        ),
        (
            "mean_order_size_imbalance",
            "(S_b - S_a) / (S_b + S_a), S = size / order count of a side; 0 without counts",
            "1",
            OWN,
        ),
    ]
    return [_shape(k, *row) for k, row in enumerate(rows)]


def _flows(group: str, prefix: str, function: FeatureFunction) -> list[Feature]:
    rows = [
        *((f"ofi_{i}", f"sum of e_{i}", "lots", CONT if i == 1 else XU) for i in range(1, 6)),
        ("ofi_6_10", "sum of e_6 + ... + e_10", "lots", XU),
        ("signed_volume", "sum of size x aggressor", "lots", OWN),
        ("trade_count_imbalance", "number of buys - number of sells", "trades", OWN),
    ]
    change = "change of: " if prefix else ""
    return [
        Feature(
            name=prefix + name,
            group=group,
            formula=change + formula,
            unit=unit,
            source=source,
            function=function,
            column=k,
        )
        for k, (name, formula, unit, source) in enumerate(rows)
    ]


def _dynamics() -> list[Feature]:
    rows = [
        ("mid_change", "m - m of the previous row", "ticks"),
        (
            f"mid_change_{LOOKBACK_ROWS}",
            f"m - m of {LOOKBACK_ROWS} rows ago, or of the segment's first row",
            "ticks",
        ),
        ("log_volatility_ema", "ln sqrt(EMA(mid_change^2) + floor^2)", "ln ticks per row"),
        ("log_intensity_ema", "ln(EMA(trades) / EMA(seconds) + floor)", "ln trades per second"),
        ("log1p_duration", "ln(1 + dt)", "ln seconds"),
    ]
    return [
        Feature(name=n, group="dynamics", formula=f, unit=u, source=OWN, function=dynamics, column=k)
        for k, (n, f, u) in enumerate(rows)
    ]


def _period_name(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{seconds}s" if not rest else f"{nanoseconds // 1_000_000}ms"


def _times() -> list[Feature]:
    return [
        Feature(
            name=f"time_{wave}_{_period_name(period)}",
            group="time",
            formula=f"{wave}(2 pi dt / {_period_name(period)}), dt since the previous row",
            unit="1",
            source="Vaswani et al. 2017, on clock time",
            function=time_encoding,
            column=2 * k + w,
        )
        for k, period in enumerate(PERIODS_NS)
        for w, wave in enumerate(("sin", "cos"))
    ]


CATALOGUE: tuple[Feature, ...] = (
    *_shapes(),
    *_flows("raw_ofi", "", raw_ofi),
    *_flows("delta_ofi", "delta_", delta_ofi),
    *_dynamics(),
    *_times(),
)
FEATURE_NAMES: tuple[str, ...] = tuple(feature.name for feature in CATALOGUE)


def compute(rows: Rows) -> NDArray[np.float32]:
    """Every feature of the catalogue, [R, 40] float32, unnormalised."""
    out = np.empty((rows.size, FEATURES), np.float32)
    place = 0
    for function, group in groupby(CATALOGUE, key=lambda feature: feature.function):
        columns = [feature.column for feature in group]
        values = function(rows)
        whole = columns == list(range(values.shape[1]))
        out[:, place : place + len(columns)] = values if whole else values[:, columns]
        place += len(columns)
    return out


def render() -> str:
    """The catalogue as the Markdown page docs/features.md."""
    lines = [INTRODUCTION, "", *_render_samplers(), "", *_render_columns()]
    for group, note in GROUPS.items():
        members = [feature for feature in CATALOGUE if feature.group == group]
        lines += ["", f"## {group} ({len(members)})", "", note, "", "| feature | formula | unit | source |"]
        lines += ["|---|---|---|---|"]
        lines += [f"| `{f.name}` | {f.formula} | {f.unit} | {f.source} |" for f in members]
    return "\n".join(lines) + "\n"


def _render_samplers() -> list[str]:
    head = ["## Which snapshots are rows", "", "`features.sampler.kind` of an instrument's file:", ""]
    rule = [f"| `{kind}` | {text} |" for kind, text in SAMPLER_KINDS.items()]
    return [*head, "| kind | row |", "|---|---|", *rule, "", SAMPLER_NOTE]


def _render_columns() -> list[str]:
    head = ["## Columns of the cache", "", "| column | type | meaning |", "|---|---|---|"]
    return head + [
        f"| `{c.name}` | {np.dtype(c.kind).name}{f' x {c.width}' if c.width else ''}"
        f"{', nullable' if c.present else ''} | {c.meaning} |"
        for c in COLUMNS
    ]


if __name__ == "__main__":
    sys.stdout.write(render())
