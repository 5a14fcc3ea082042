"""Criterion 8: the profit is not one lucky day."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence


@dataclass(frozen=True)
class DayShare:
    """No single day contributes more than its share of the out-of-sample PnL."""

    number: int = 8
    name: str = "day_share"
    title: str = "No single day carries the profit"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the best day's PnL over the total; undefined, hence failed, without a profit."""
        bound = config.max_day_share
        if evidence.oos is None or not evidence.oos.chosen.days:
            return judged(self, False, "there is no out-of-sample PnL", threshold=bound)
        series = evidence.oos.chosen
        daily = series.by_day()
        total = float(daily.sum())
        if not total > 0.0:
            return judged(self, False, f"there is no profit to share: {total:+.4g} ticks", threshold=bound)
        best = int(daily.argmax())
        share = float(daily[best]) / total
        return judged(
            self,
            share <= bound,
            f"{series.days[best]} contributes {share:.1%} of {total:.4g} ticks, the bound is {bound:.0%}",
            figure=share,
            threshold=bound,
            margin=bound - share,
            details={"day": series.days[best], "days": len(series.days)},
        )
