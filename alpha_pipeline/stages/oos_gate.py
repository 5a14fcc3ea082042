"""The verdict: the chosen cell, once, on days that nothing was fitted or chosen on."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from alpha_core.market.config import FillMode
from alpha_core.rl.policies import RandomPolicy, ThresholdPolicy
from alpha_core.shapes import HORIZONS
from alpha_core.training.perception import predict_logits
from alpha_core.training.policy_file import load_policy
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.criteria import all_criteria
from alpha_pipeline.evaluation.episodes import EpisodePlan
from alpha_pipeline.evaluation.evidence import GateEvidence, PerceptionEvidence
from alpha_pipeline.evaluation.gate import judge
from alpha_pipeline.evaluation.looks import Look, LookCount, LookLedger
from alpha_pipeline.evaluation.oos import OosSeries, run_out_of_sample
from alpha_pipeline.evaluation.series import series_of
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.evaluation.statistics import sessions_per_year
from alpha_pipeline.evaluation.verdict import write_verdict
from alpha_pipeline.provenance import digest_json, git_revision
from alpha_pipeline.report.figures import equity_figure
from alpha_pipeline.research.fitting import plan_on
from alpha_pipeline.research.rows import Rows
from alpha_pipeline.research.scoring import scored
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream, required_stamp
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import POLICY_FOLDER, load_rows, perception_of, published_backtest
from alpha_pipeline.stages.walk_forward import chosen_cell

VERSION = "1"
VERDICT_FILE = "verdict.json"
_RESAMPLES = 500


def run(context: StageContext) -> StageResult:
    """Record the look, run the out-of-sample series, judge all criteria. A FAIL is a result, not an error."""
    config = context.config
    days = context.scope.days(Days.OUT_OF_SAMPLE)
    look = _record_look(context, days)
    rows = load_rows(context.scope, Days.OUT_OF_SAMPLE)
    cell = chosen_cell(context)
    series = _series(context, rows, cell) if cell.threshold is not None else None
    evidence = GateEvidence(
        instrument=config.name,
        sessions_a_year=sessions_per_year(config.instrument.calendar),
        chosen=cell,
        oos=series,
        perception=list(_perception(context, rows)),
        kill_criteria=_kill_criteria(context),
        data_quality=list(_data_quality(context)),
        reproducibility=[
            _same_logits(context, rows),
            *([_reproducible(context, rows, cell, series)] if series else []),
        ],
        lineage=[*_lineage(context), _purge_check(context)],
        looks=look,
        digests=dict(required_stamp(STAGE, context.scope, WHOLE).inputs),
    )
    verdict = judge(evidence, config.gate)
    write_verdict(verdict, context.out / VERDICT_FILE)
    context.scope.report(verdict.headline)
    figures = {"equity": equity_figure(series)} if series else {}
    numbers = {k: float(v) for k, v in verdict.context.items() if isinstance(v, int | float)}
    return StageResult(
        metrics=numbers | {"passed": float(verdict.passed)},
        params={"verdict": verdict.word, "threshold": str(cell.threshold), "cost": cell.cost},
        figures=figures,
        checks=verdict.checks,
    )


def _series(context: StageContext, rows: Rows, cell: ChosenCell) -> OosSeries:
    return run_out_of_sample(
        published_backtest(context, rows),
        _plan(context, rows),
        cell,
        policy=load_policy(context.upstream("execution_policy") / POLICY_FOLDER),
        random_policy=RandomPolicy(),
        threshold_policy=ThresholdPolicy(enter=cell.threshold or 0.0),
        fill_mode=FillMode.POISSON,
        queue_fill_mode=FillMode.QUEUE,
    )


def _plan(context: StageContext, rows: Rows) -> EpisodePlan:
    return plan_on(rows, RowRange(0, len(rows)), context.config, overlapping=False)


def _reproducible(context: StageContext, rows: Rows, cell: ChosenCell, first: OosSeries) -> Check:
    """The chosen cell once more: models loaded afresh, and the episodes cut into two batches."""
    plan = _plan(context, rows)
    halves = replace(published_backtest(context, rows), max_environments=max(1, len(plan) // 2))
    policy = load_policy(context.upstream("execution_policy") / POLICY_FOLDER)
    key = (cell.cost, cell.threshold or 0.0)
    again = series_of(halves.run(policy, plan, [key], fill_mode=FillMode.POISSON))
    apart = int((again.pnl_ticks != first.chosen.pnl_ticks).sum())
    return Check(
        name="same_pnl_again",
        passed=apart == 0,
        figure=float(apart),
        threshold=0.0,
        description="blocks whose out-of-sample PnL differs when run again, models loaded afresh, in two batches",
    )


def _same_logits(context: StageContext, rows: Rows) -> Check:
    """The perception loaded twice says the same of every row."""
    first, again = (predict_logits(perception_of(context), rows.sequence) for _ in range(2))
    apart = int((first != again).sum())
    return Check(
        name="same_logits_again",
        passed=apart == 0,
        figure=float(apart),
        threshold=0.0,
        description="out-of-sample logits that differ when the perception is loaded and asked again",
    )


def _perception(context: StageContext, rows: Rows) -> Iterator[PerceptionEvidence]:
    logits = predict_logits(perception_of(context), rows.sequence)
    whole = RowRange(0, len(rows))
    for score in scored(logits, rows, whole, resamples=_RESAMPLES, seed=context.config.gate.seed):
        yield PerceptionEvidence(
            horizon=score.horizon, auc=score.auc, auc_low=score.auc_low, auc_high=score.auc_high, n=score.n
        )


def _kill_criteria(context: StageContext) -> list[Check]:
    return [Check(**c) for c in context.store.get("execution_policy").result["checks"]]


def _data_quality(context: StageContext) -> Iterator[Check]:
    for day in context.scope.days(Days.ALL):
        for check in context.store.get("data_quality", day).result["checks"]:
            if check["blocking"]:
                yield Check(**check | {"name": f"{day} {check['name']}"})


def _lineage(context: StageContext) -> Iterator[Check]:
    """Every artifact that the verdict rests on is what today's code, settings and inputs would make."""
    from alpha_pipeline.plan import stale_day, stale_whole
    from alpha_pipeline.stages import STAGES

    before = STAGES[: [stage.name for stage in STAGES].index(STAGE.name)]
    stale = [s for day in context.scope.days(Days.ALL) for s in stale_day(before, context.scope, day)]
    stale += stale_whole(before, context.scope)
    yield Check(
        name="nothing_stale",
        passed=not stale,
        figure=float(len(stale)),
        threshold=0.0,
        description="artifacts that are not what today's code and inputs would make"
        + "".join(f"; {s.stage} {s.partition}: {', '.join(s.reasons)}" for s in stale),
    )


def _purge_check(context: StageContext) -> Check:
    """A purge shorter than the longest label lets training rows see test prices; such a run must not pass."""
    purge = context.config.walk_forward.purge_snapshots
    return Check(
        name="purge_covers_labels",
        passed=purge >= HORIZONS[-1],
        figure=float(purge),
        threshold=float(HORIZONS[-1]),
        description="snapshots purged in front of each validation and test part, at least the longest label horizon",
    )


def _record_look(context: StageContext, days: list[str]) -> LookCount:
    """Enter this opening into the ledger, before any of the days is read."""
    config = context.config
    simulated = "" if config.simulator is None else f"-{digest_json(config.simulator)[:12]}"
    stamp = required_stamp(STAGE, context.scope, WHOLE)
    return LookLedger(context.store.root / "looks.jsonl").open_days(
        Look(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            run_id=context.out.name,
            instrument=config.name + simulated,
            days=tuple(days),
            inputs=stamp.version,
            code=git_revision(),
            data={day: context.store.get("fxcache", day).digest for day in days},
        )
    )


STAGE = Stage(
    name="oos_gate",
    description="PASS or FAIL on days never seen before, with the figure, threshold and margin of every criterion.",
    group="evaluation",
    kinds=frozenset({"torch", "polars"}),
    per_day=False,
    upstream=(
        Upstream(stage="fxcache", days=Days.ALL),
        Upstream(stage="data_quality", days=Days.ALL),
        Upstream(stage="fill_model", days=Days.WHOLE),
        Upstream(stage="random_baseline", days=Days.WHOLE),
        Upstream(stage="perception_model", days=Days.WHOLE),
        Upstream(stage="execution_policy", days=Days.WHOLE),
        Upstream(stage="backtest_grid", days=Days.WHOLE),
        Upstream(stage="walk_forward", days=Days.WHOLE),
    ),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.market, c.grid, c.gate, c.walk_forward, c.instrument, c.numerics],
    run=run,
    checks={c.name: False for c in all_criteria() if c.name not in ("reality_check", "shadow_replay")},
)
