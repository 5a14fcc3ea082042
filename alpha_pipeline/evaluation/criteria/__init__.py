"""The criteria of the gate, one class a file: for bad evidence they fail with the reason."""

from alpha_pipeline.evaluation.criteria.base import Criterion
from alpha_pipeline.evaluation.criteria.clean_inputs import CleanInputs
from alpha_pipeline.evaluation.criteria.day_share import DayShare
from alpha_pipeline.evaluation.criteria.deferred import RealityCheck, ShadowReplay
from alpha_pipeline.evaluation.criteria.kill_criteria import KillCriteria
from alpha_pipeline.evaluation.criteria.look_budget import LookBudget
from alpha_pipeline.evaluation.criteria.perception_auc import PerceptionAuc
from alpha_pipeline.evaluation.criteria.positive_mean import PositiveMean
from alpha_pipeline.evaluation.criteria.rivals import Rivals
from alpha_pipeline.evaluation.criteria.robust_sign import RobustSign
from alpha_pipeline.evaluation.criteria.usable_record import UsableRecord


def all_criteria() -> tuple[Criterion, ...]:
    """Every criterion, in the order of the verdict."""
    return (
        UsableRecord(),
        PerceptionAuc(),
        KillCriteria(),
        PositiveMean(),
        RealityCheck(),
        LookBudget(),
        RobustSign(),
        Rivals(),
        DayShare(),
        ShadowReplay(),
        CleanInputs(),
    )
