"""What is stale and why. Answers come from stamps alone, so they agree whoever asks: CLI, sensor or page."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from alpha_core.errors import DataError
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.failures import has_failed, kept_failure
from alpha_pipeline.provenance import differences
from alpha_pipeline.stages.base import Days, Scope, Stage, required_stamp


@dataclass(frozen=True, kw_only=True)
class Stale:
    """One partition that must be rebuilt.

    Attributes:
        stage: its stage.
        partition: the day, or WHOLE.
        reasons: every difference between what is stored and what is required.
    """

    stage: str
    partition: str
    reasons: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How the stages of one partition stand that are not stale.

    Attributes:
        fresh: names of those that are up to date.
        rejection: why what lies behind a rejected artifact is not built, None where nothing is rejected.
    """

    fresh: Sequence[str]
    rejection: str | None


def stale_day(stages: Sequence[Stage], scope: Scope, day: str) -> list[Stale]:
    """The stale per-day stages of one day, upstream first; whatever reads a stale one is stale with it.

    What lies behind a rejected artifact that is itself up to date is blocked, not stale.
    """
    return _walk([s for s in stages if s.per_day], scope, day)


def stale_whole(stages: Sequence[Stage], scope: Scope) -> list[Stale]:
    """The stale undivided stages, upstream first, judged by the day artifacts as they are published now."""
    return _walk([s for s in stages if not s.per_day], scope, WHOLE)


def standing(stages: Sequence[Stage], scope: Scope, partition: str, stale: Sequence[Stale]) -> Standing:
    """What holds of a partition beside what is stale there.

    Args:
        stages: which, upstream first.
        scope: the market.
        partition: the day, or WHOLE.
        stale: what `stale_day` or `stale_whole` says of the same partition.
    """
    found = {entry.stage: entry for entry in stale}
    kept = [s for s in stages if s.name not in found]
    fresh = [s.name for s in kept if not _blocked(s, scope, partition, found)]
    return Standing(fresh=fresh, rejection=rejection(fresh, scope, partition))


def rejection(names: Sequence[str], scope: Scope, partition: str) -> str | None:
    """One sentence on the first rejected artifact among the stages named, with the figures of its failed checks."""
    for artifact in (scope.store.find(name, partition) for name in names):
        if artifact is not None and artifact.status == "rejected":
            checks = artifact.result["checks"]
            reasons = "; ".join(c["description"] for c in checks if c["blocking"] and not c["passed"])
            return f"rejected by {artifact.stage}: {reasons}; mend the input or the thresholds"
    return None


def failure(stages: Sequence[Stage], scope: Scope, partition: str, stale: Sequence[Stale]) -> str | None:
    """One sentence on why the stage that holds a partition up failed, None where trying again may well succeed.

    Args:
        stages: which, upstream first.
        scope: the market.
        partition: the day, or WHOLE.
        stale: what `stale_day` or `stale_whole` says of the same partition.
    """
    names = {entry.stage for entry in stale}
    for stage in (s for s in stages if s.name in names):
        folder = scope.store.root / stage.name / partition
        if not has_failed(folder) or any(edge.stage in names for edge in stage.upstream):
            continue
        with suppress(DataError):  # an upstream artifact is gone, so this is not what was tried
            reason = kept_failure(folder, required_stamp(stage, scope, partition))
            if reason is not None:
                return f"{stage.name} failed: {reason}"
    return None


def _walk(stages: Sequence[Stage], scope: Scope, partition: str) -> list[Stale]:
    found: dict[str, Stale] = {}
    for stage in stages:
        if _blocked(stage, scope, partition, found):
            continue
        reasons = [
            f"{e.stage} is rebuilt" for e in stage.upstream if e.content and e.stage in found
        ] or _reasons(stage, scope, partition)
        if reasons:
            found[stage.name] = Stale(stage=stage.name, partition=partition, reasons=reasons)
    return list(found.values())


def _blocked(stage: Stage, scope: Scope, partition: str, found: dict[str, Stale]) -> bool:
    same = [e.stage for e in stage.upstream if e.days is Days.SAME and e.stage not in found]
    return any(scope.store.status(name, partition) == "rejected" for name in same)


def _reasons(stage: Stage, scope: Scope, partition: str) -> list[str]:
    try:
        stored = scope.store.find(stage.name, partition)
        required = required_stamp(stage, scope, partition)
    except DataError as error:
        return [str(error)]
    if stored is None:
        return differences(None, required)
    if stored.status == "rejected" and not stage.per_day:
        return ["its own checks rejected it"]
    return [*([stored.damage] if stored.damage else []), *differences(stored.stamp, required)]
