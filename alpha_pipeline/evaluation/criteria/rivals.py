"""Criterion 7: learning adds something to chance and to a rule on the alpha alone."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, Detail, judged, smallest
from alpha_pipeline.evaluation.evidence import GateEvidence
from alpha_pipeline.evaluation.series import PnlSeries
from alpha_pipeline.evaluation.statistics import paired_test


@dataclass(frozen=True)
class Rivals:
    """Mean paired difference against the random baseline and the threshold rule above zero."""

    number: int = 7
    name: str = "beats_rivals"
    title: str = "Beats random and the threshold rule"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the smaller mean difference, in ticks per session or intraday block."""
        oos = evidence.oos
        if oos is None:
            return judged(self, False, "there is no out-of-sample PnL", threshold=0.0)
        rivals = {"random": oos.random, "threshold_rule": oos.threshold_rule}
        unpaired = [name for name, rival in rivals.items() if rival.keys != oos.chosen.keys]
        if unpaired or not oos.chosen.keys:
            names = " and ".join(unpaired) or "nothing"
            return judged(self, False, f"{names} was run on other episodes than the policy", threshold=0.0)
        worst, words, details = _compare(oos.chosen, rivals, config)
        return judged(
            self,
            worst > 0.0,
            f"mean paired difference is {words}, both must be above 0",
            figure=worst,
            threshold=0.0,
            margin=worst,
            details=details,
        )


def _compare(
    ours: PnlSeries, rivals: dict[str, PnlSeries], config: GateConfig
) -> tuple[float, str, dict[str, Detail]]:
    """Smaller mean difference, the words for both, and both with their p values."""
    mine = ours.observations(config.min_sessions)
    means: list[float] = []
    words: list[str] = []
    details: dict[str, Detail] = {"unit": mine.unit}
    for name, rival in rivals.items():
        difference = mine.pnl - rival.observations(config.min_sessions).pnl
        means.append(float(difference.mean()))
        words.append(f"{means[-1]:+.4g} ticks per {mine.unit} against {name.replace('_', ' ')}")
        details[f"difference_{name}_ticks"] = means[-1]
        details[f"p_value_{name}"] = paired_test(difference, 0.0).p_value
    return smallest(means), " and ".join(words), details
