"""The gate's out-of-sample rollouts: the chosen cell, two harder variants and two rivals, once each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alpha_core.errors import DataError
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.episodes import EpisodePlan
from alpha_pipeline.evaluation.lockstep import UNGATED, Backtest
from alpha_pipeline.evaluation.series import PnlSeries, series_of

if TYPE_CHECKING:
    from alpha_core.rl.policies import Policy


@dataclass(frozen=True, kw_only=True)
class OosSeries:
    """PnL on the same out-of-sample episodes, with the same random numbers.

    Attributes:
        chosen: the policy at the chosen cost and threshold; the only one that is tested.
        next_cost: the same at the grid's next higher cost, None when the grid has none.
        queue_fill: the same under the queue fill model.
        random: uniform actions at the chosen cost.
        threshold_rule: the rule on the alpha alone, no learning, at the chosen cost and threshold.
    """

    chosen: PnlSeries
    next_cost: PnlSeries | None
    queue_fill: PnlSeries
    random: PnlSeries
    threshold_rule: PnlSeries


def run_out_of_sample(
    backtest: Backtest,
    plan: EpisodePlan,
    cell: ChosenCell,
    *,
    policy: "Policy",
    random_policy: "Policy",
    threshold_policy: "Policy",
    fill_mode: int,
    queue_fill_mode: int,
) -> OosSeries:
    """Run the five out-of-sample series of one chosen cell; no other cell of the grid is opened.

    Args:
        backtest: the out-of-sample days.
        plan: their episodes.
        cell: chosen in sample.
        policy: the trained policy.
        random_policy: uniform actions.
        threshold_policy: the rule on the alpha alone, set to the cell's threshold.
        fill_mode: of the chosen, random and threshold series.
        queue_fill_mode: FillMode.QUEUE.

    Raises:
        DataError: no cell was chosen.
    """
    if cell.threshold is None:
        raise DataError(f"nothing to open the out-of-sample days for: {cell.reason}")

    def run(actor: "Policy", cost: float, threshold: float, mode: int) -> PnlSeries:
        return series_of(backtest.run(actor, plan, [(cost, threshold)], fill_mode=mode))

    dearer = None if cell.next_cost is None else run(policy, cell.next_cost, cell.threshold, fill_mode)
    return OosSeries(
        chosen=run(policy, cell.cost, cell.threshold, fill_mode),
        next_cost=dearer,
        queue_fill=run(policy, cell.cost, cell.threshold, queue_fill_mode),
        random=run(random_policy, cell.cost, UNGATED, fill_mode),
        threshold_rule=run(threshold_policy, cell.cost, cell.threshold, fill_mode),
    )
