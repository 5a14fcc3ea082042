"""Criterion 6: the profit does not hang on the assumed cost or fill model."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged, smallest
from alpha_pipeline.evaluation.evidence import GateEvidence
from alpha_pipeline.evaluation.series import PnlSeries


@dataclass(frozen=True)
class RobustSign:
    """Mean PnL stays positive at the grid's next higher cost and under the queue fill model."""

    number: int = 6
    name: str = "robust_sign"
    title: str = "Sign survives higher cost and queue fills"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:  # noqa: ARG002
        """The figure is the smaller mean, in ticks per episode."""
        if evidence.oos is None:
            return judged(self, False, "there is no out-of-sample PnL", threshold=0.0)
        dearer, queued = _mean(evidence.oos.next_cost), _mean(evidence.oos.queue_fill)
        details = {"mean_next_cost_ticks": dearer, "mean_queue_fill_ticks": queued}
        if dearer is None or queued is None:
            missing = "the grid has no higher cost" if evidence.oos.next_cost is None else "no episodes"
            sentence = f"not measured: {missing}"
            return judged(self, False, sentence, threshold=0.0, details=details)
        worst = smallest((dearer, queued))
        return judged(
            self,
            worst > 0.0,
            f"mean PnL per episode is {dearer:+.4g} ticks at the next higher cost and {queued:+.4g} "
            "under the queue fill model, both must be above 0",
            figure=worst,
            threshold=0.0,
            margin=worst,
            details=details,
        )


def _mean(series: PnlSeries | None) -> float | None:
    return None if series is None else series.mean_per_episode
