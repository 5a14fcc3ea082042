"""The ladder of policies: rules without learning, then each network, judged on the same episodes that none has seen.

Policies are trained on the first part of the validation rows, where the alpha is not fitted, and judged on the rest,
a whole episode later. The days of the gate are not looked at. Every policy trades behind the same gate on the alpha
(entries against it are masked), at half a tick per lot and side, under the fitted fill model. Flattening by a
schedule (TWAP, Almgren and Chriss) has no place here: no episode begins with a position to get rid of.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.market.config import FillMode
from alpha_core.nn.q_networks import KINDS
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.policies import Policy, RandomPolicy, ThresholdPolicy, WaitPolicy
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.baseline import BaselineStats
from alpha_pipeline.evaluation.lockstep import Backtest
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.evaluation.statistics import clustered_mean, critical_t
from alpha_pipeline.research.fitting import fit_execution, kill_checks, plan_on
from alpha_pipeline.research.rows import Rows
from alpha_pipeline.results import StageResult

RULES: Mapping[str, Policy] = {
    "wait": WaitPolicy(),
    "random": RandomPolicy(),
    "threshold rule": ThresholdPolicy(),
}
"""Policies that learn nothing; only random ones differ from seed to seed."""

RUNGS = (*RULES, *KINDS)
TRAINED_SHARE = 0.7
"""Share of the validation rows that policies are trained on; the rest judges them."""

HALF_TICK = Decimal("0.5")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What all rungs share.

    Attributes:
        rows: the in-sample days.
        train: where policies learn.
        judge: where they are judged.
        backtest: the market through the published perception, with the published fill model.
        baseline: what random actions earn.
    """

    rows: Rows
    train: RowRange
    judge: RowRange
    backtest: Backtest
    baseline: BaselineStats


@dataclass(frozen=True, kw_only=True)
class Climbed:
    """One rung with one seed.

    Attributes:
        rung: of RUNGS.
        seed: of the training, the random actions and the fills.
        pnl_ticks: [n] per judged episode, after costs.
        cluster: [n] the block of a day that an episode lies in.
        trades: mean executions per episode.
        result: what the tracking store keeps.
    """

    rung: str
    seed: int
    pnl_ticks: NDArray[np.float64]
    cluster: Sequence[str]
    trades: float
    result: StageResult


def parted(validation: RowRange, config: PipelineConfig) -> tuple[RowRange, RowRange]:
    """Where policies learn and where they are judged, an episode and its latency apart.

    Raises:
        DataError: the validation rows are too few for both.
    """
    episode = config.market.horizon + config.market.latency + 1
    cut = validation.start + round(TRAINED_SHARE * len(validation))
    if validation.stop - cut < 2 * episode:
        raise DataError(
            f"the ladder's judged rows are {validation.stop - cut} of {len(validation)} validation rows, must be at "
            f"least {2 * episode}: add days or lower market.horizon"
        )
    return RowRange(validation.start, cut), RowRange(cut + episode, validation.stop)


def climbed(rung: str, seed: int, ground: Ground, config: PipelineConfig) -> Climbed:
    """Train a rung, where it learns, and run it over the judged episodes."""
    began = time.monotonic()
    config = config.model_copy(update={"seed": seed, "policy": _settings(rung, config)})
    backtest = replace(ground.backtest, seed=seed)
    policy, figures, checks = RULES.get(rung), {}, []
    if policy is None:
        fit = fit_execution(
            backtest.environment, ground.rows, ground.train, config, ground.baseline, on_log=None
        )
        policy, checks = fit.policy, kill_checks(fit)
        figures = {name: value for name, value in fit.history[-1].items() if name != "sweep"}
    plan = plan_on(ground.rows, ground.judge, config, overlapping=False)
    cost = float(HALF_TICK * Decimal(config.instrument.tick_size))
    table = backtest.run(policy, plan, [(cost, 0.0)], fill_mode=FillMode.POISSON)
    pnl, trades = table["pnl_ticks"].to_numpy(), float(table["trades"].to_numpy().mean())
    found = clustered_mean(pnl, clusters := _clusters(table))
    figures |= {
        "judged_pnl_ticks": found.mean or 0.0,
        "judged_trades": trades,
        "judged_episodes": float(len(pnl)),
    }
    return Climbed(
        rung=rung,
        seed=seed,
        pnl_ticks=pnl,
        cluster=clusters,
        trades=trades,
        result=StageResult(
            metrics=figures | {"seconds": time.monotonic() - began},
            params={"rung": rung, "seed": seed} | (asdict(config.policy) if rung in KINDS else {}),
            checks=checks,
        ),
    )


def _settings(rung: str, config: PipelineConfig) -> PolicyConfig:
    """The instrument's settings with the rung's network; linear values have nothing to draw from."""
    selection = "greedy" if rung == "linear" else config.policy.selection
    return replace(config.policy, network=rung, selection=selection) if rung in KINDS else config.policy


def _clusters(table: pl.DataFrame) -> list[str]:
    """Episodes of one block of a day are taken to move together."""
    return [f"{day}/{block}" for day, block in zip(table["day"], table["block"], strict=True)]


def ladder_table(found: Sequence[Climbed]) -> pl.DataFrame:
    """One line a rung, in the order of the ladder: its mean over seeds, with the interval that its blocks give.

    An episode's PnL is first averaged over seeds, which see the same episodes. `seed_sd` is what training anew
    changes: the spread of the seeds' means. `over_previous` compares with the rung before, episode by episode.
    """
    lines, before = [], None
    for rung in RUNGS:
        runs = [one for one in found if one.rung == rung]
        if not runs:
            continue
        pnl = np.mean([one.pnl_ticks for one in runs], axis=0)
        mean, low, high = _interval(pnl, runs[0].cluster)
        gain = (None, None, None) if before is None else _interval(pnl - before, runs[0].cluster)
        means = [float(one.pnl_ticks.mean()) for one in runs]
        lines.append(
            {
                "rung": rung,
                "seeds": len(runs),
                "episodes": len(pnl),
                "pnl_ticks": mean,
                "low": low,
                "high": high,
                "seed_sd": float(np.std(means, ddof=1)) if len(means) > 1 else None,
                "trades": float(np.mean([one.trades for one in runs])),
                "over_previous": gain[0],
                "over_previous_low": gain[1],
                "over_previous_high": gain[2],
            }
        )
        before = pnl
    return pl.DataFrame(lines, infer_schema_length=None)


def _interval(
    values: NDArray[np.float64], clusters: Sequence[str]
) -> tuple[float, float | None, float | None]:
    """Mean and its 95 % interval by clusters; none with a single cluster."""
    found = clustered_mean(values, clusters)
    mean = found.mean or 0.0
    if found.standard_error is None:
        return mean, None, None
    half = critical_t(0.025, found.clusters) * found.standard_error
    return mean, mean - half, mean + half
