"""The execution policy, trained in a replayed market on the alpha of the published perception."""

from alpha_core.control.kill_criteria import THRESHOLDS
from alpha_core.training.policy_file import save_policy
from alpha_core.training.resume import Resume
from alpha_pipeline.report.figures import learning_curve_figure
from alpha_pipeline.research.fitting import fit_execution, kill_checks
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import POLICY_FOLDER, baseline_of, in_sample, published_backtest

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """Train on the in-sample validation rows, where the alpha is not fitted, and hold it to the kill criteria."""
    config, sample = context.config, in_sample(context.scope)

    def tell(sweep: dict[str, float]) -> None:
        context.scope.report(
            f"policy: sweep {sweep['sweep']:.0f}, {sweep['pnl_ticks']:.1f} ticks per episode"
        )

    backtest = published_backtest(context, sample.rows)
    fit = fit_execution(
        backtest.environment,
        sample.rows,
        sample.validation,
        config,
        baseline_of(context),
        on_log=tell,
        resume=Resume(folder=context.work, report=context.scope.report),
    )
    save_policy(fit, context.out / POLICY_FOLDER)
    last = fit.history[-1]
    return StageResult(
        metrics={name: value for name, value in last.items() if name != "sweep"},
        params={
            "hidden": config.policy.hidden,
            "atoms": config.policy.atoms,
            "selection": config.policy.selection,
        },
        figures={"policy_learning": learning_curve_figure(fit.history)},
        checks=kill_checks(fit),
        history={name: [record[name] for record in fit.history] for name in last},
    )


STAGE = Stage(
    name="execution_policy",
    description="Munchausen-C51 over the replayed market, with the kill criteria it is held to.",
    group="training",
    kinds=frozenset({"torch"}),
    per_day=False,
    upstream=(
        Upstream(stage="fxcache", days=Days.IN_SAMPLE),
        Upstream(stage="fill_model", days=Days.WHOLE),
        Upstream(stage="random_baseline", days=Days.WHOLE),
        Upstream(stage="perception_model", days=Days.WHOLE),
    ),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.policy, c.market, c.walk_forward, c.gate.horizon_index, c.instrument, c.numerics],
    run=run,
    checks=dict.fromkeys(THRESHOLDS, False),
)
