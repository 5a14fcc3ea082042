"""What uniformly drawn actions earn: the anchor of every "return vs random"."""

import json

import polars as pl

from alpha_pipeline.fills.coefficients import load_fill_model
from alpha_pipeline.report.figures import bar_figure
from alpha_pipeline.research.fitting import backtest_on, measure_random, plan_on
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import BASELINE_FILE, FILL_FILE, in_sample

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """Run the random policy over the in-sample validation rows."""
    sample = in_sample(context.scope)
    fills = load_fill_model(context.upstream("fill_model") / FILL_FILE)
    backtest = backtest_on(sample.rows.market, fills, context.config)
    plan = plan_on(sample.rows, sample.validation, context.config, overlapping=True)
    digests = {f"fxcache/{day}": context.store.get("fxcache", day).digest for day in sample.rows.days}
    stats = measure_random(backtest, plan, context.config, digests)
    (context.out / BASELINE_FILE).write_text(json.dumps(stats.to_dict(), indent=1))
    context.scope.report(
        f"random baseline: {stats.mean:.1f} ± {stats.standard_deviation:.1f} {stats.unit}, n = {stats.episodes}"
    )
    names = ["mean", "mean - sd", "mean + sd"]
    spread = [stats.mean, stats.mean - stats.standard_deviation, stats.mean + stats.standard_deviation]
    drawn = pl.DataFrame({"figure": names, "ticks": spread})
    return StageResult(
        tables={"baseline": pl.DataFrame([stats.to_dict() | {"digests": None}]).drop("digests")},
        figures={"baseline": bar_figure(drawn, "PnL of random actions per episode", "ticks")},
        metrics={
            "mean_pnl_ticks": stats.mean,
            "sd_pnl_ticks": stats.standard_deviation,
            "episodes": float(stats.episodes),
            "days": float(stats.days),
        }
        | ({} if stats.standard_error is None else {"se_pnl_ticks": stats.standard_error}),
        params={"cost": stats.cost, "fill_mode": stats.fill_mode, "unit": stats.unit, "seed": stats.seed},
    )


STAGE = Stage(
    name="random_baseline",
    description="Mean, deviation and day-clustered error of the PnL of random actions, per episode.",
    group="training",
    kinds=frozenset({"torch"}),
    per_day=False,
    upstream=(Upstream(stage="fxcache", days=Days.IN_SAMPLE), Upstream(stage="fill_model", days=Days.WHOLE)),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.market, c.grid, c.gate, c.walk_forward, c.instrument, c.numerics],
    run=run,
)
