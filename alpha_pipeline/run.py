"""`alpha run`: from an instrument's name to a verdict, doing only what is stale."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alpha_core.durable import write_atomic
from alpha_core.errors import ConfigError
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.bucket import is_url
from alpha_pipeline.config import PipelineConfig, load
from alpha_pipeline.evaluation.verdict import read_verdict
from alpha_pipeline.launched import Launched
from alpha_pipeline.paths import Workspace, writable_folder
from alpha_pipeline.plan import Stale, failure, stale_day, stale_whole, standing
from alpha_pipeline.provenance import canonical_json, digest_file, digest_json
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Scope, Stage, open_scope
from alpha_pipeline.stages.oos_gate import VERDICT_FILE
from alpha_pipeline.stages.report import FILE as REPORT_FILE
from alpha_pipeline.workers import worker_count

if TYPE_CHECKING:
    from alpha_pipeline.simulator import SimulatorConfig

DAY_STAGES: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage.per_day)
"""From raw files to the feature cache, one day at a time."""


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What `alpha run` tells.

    Attributes:
        instrument: name of the market.
        launched: what was built, what was up to date, what failed.
        verdict: as stored, None when the run stopped before the gate.
        report: the page that explains it.
    """

    instrument: str
    launched: Launched
    verdict: dict[str, Any] | None
    report: Path | None

    @property
    def exit_code(self) -> int:
        """See alpha_pipeline.cli."""
        if self.launched.failed and self.verdict is None:
            return 1
        return 0 if self.verdict is None or self.verdict["passed"] else 3

    def to_dict(self) -> dict[str, Any]:
        report = None if self.report is None else str(self.report)
        told = {"instrument": self.instrument, "verdict": self.verdict, "report": report}
        return told | asdict(self.launched)

    def text(self) -> str:
        done = self.launched
        counts = f"{len(done.built)} built, {len(done.fresh)} up to date, {len(done.failed)} failed"
        lines = [f"{counts}, {done.seconds:.0f} s"]
        lines += [f"failed {partition}: {why}" for partition, why in done.failed.items()]
        return "\n".join(
            lines + (_verdict_lines(self.verdict) if self.verdict else []) + self._report_lines()
        )

    def _report_lines(self) -> list[str]:
        return [] if self.report is None else [f"report: {self.report}"]


def _verdict_lines(verdict: dict[str, Any]) -> list[str]:
    """One line per criterion, then the word."""
    lines = [""]
    for criterion in verdict["criteria"]:
        mark = {"pass": "ok  ", "fail": "FAIL"}.get(criterion["status"], "  - ")
        lines.append(f"  {mark} {criterion['number']:>2} {criterion['title']}: {criterion['sentence']}")
    lines += [f"  note: {warning}" for warning in verdict["warnings"]]
    return [*lines, "", f"VERDICT {verdict['verdict']} ({verdict['instrument']})"]


def run_market(
    instrument: str,
    workspace: Workspace,
    *,
    raw: Path | str | None,
    until: str | None,
    say: Callable[[str], None],
    only: Sequence[str] = (),
    processes: int | None = 1,
) -> RunOutcome:
    """Bring an instrument's stages up to date and read its verdict.

    Args:
        instrument: name of a configuration file.
        workspace: where everything lies.
        raw: folder or URL of raw files, None for the configured one.
        until: last stage to run, None for all.
        say: receives lines of progress.
        only: days of the per-day stages, all when empty.
        processes: days that are worked on at a time, None for what cores and memory allow.

    Raises:
        AlphaError: the input or the configuration cannot serve; in one sentence.
    """
    worker_count(processes, 1)  # tells a wrong number before anything is done
    scope = scope_of(instrument, workspace, raw=raw, say=say)
    if scope.config.simulator is not None and raw is None and not scope.config.source.raw:
        ensure_market(scope.config, workspace.raw(instrument), say=say)
    stages = _until(until)
    done = _launch_if_stale(scope, workspace, stages, _chosen(scope, only), processes, say)
    reached = any(stage.name == "oos_gate" for stage in stages)
    broken = WHOLE in done.failed
    if not reached or broken:
        return RunOutcome(instrument=instrument, launched=done, verdict=None, report=None)
    return RunOutcome(
        instrument=instrument,
        launched=done,
        verdict=read_verdict(scope.store.get("oos_gate").path / VERDICT_FILE),
        report=scope.store.get("report").path / REPORT_FILE if stages[-1].name == "report" else None,
    )


def scope_of(
    instrument: str, workspace: Workspace, *, raw: Path | str | None, say: Callable[[str], None] = print
) -> Scope:
    """What the stages of an instrument share; a folder that is named by hand must exist."""
    config = load(instrument, workspace)
    if raw is not None and not is_url(str(raw)) and not Path(raw).is_dir():
        raise ConfigError(f"--raw was {raw}, must be an existing folder with MBP-10 files, or a URL")
    return open_scope(config, workspace, raw=raw and str(raw), report=say)


@dataclass(frozen=True, kw_only=True)
class Standings:
    """What `alpha status` tells.

    Attributes:
        stale: everything that `alpha run` would rebuild now.
        later: undivided stages that read what is stale, and so become stale once it is rebuilt.
        rejected: day to the sentence that says why it is not built on.
        failed: day, or WHOLE, to the sentence that says why building it failed and would fail again.
    """

    stale: list[Stale]
    later: list[str]
    rejected: dict[str, str]
    failed: dict[str, str]


def standings_of(
    instrument: str,
    workspace: Workspace,
    *,
    raw: Path | str | None,
    stages: Sequence[Stage] = STAGES,
    only: Sequence[str] = (),
) -> Standings:
    """What is stale, what will be, and what is kept out; runs nothing."""
    scope = scope_of(instrument, workspace, raw=raw)
    by_day = [stage for stage in stages if stage.per_day]
    whole = [stage for stage in stages if not stage.per_day]
    days = {day: stale_day(stages, scope, day) for day in _chosen(scope, only)}
    stale = [entry for entries in days.values() for entry in entries]
    undivided = stale_whole(stages, scope) if whole else []
    rejections = {day: standing(by_day, scope, day, entries).rejection for day, entries in days.items()}
    failures = {
        at: failure(stages, scope, at, entries) for at, entries in [*days.items(), (WHOLE, undivided)]
    }
    return Standings(
        stale=stale + undivided,
        later=_later(whole, stale + undivided),
        rejected=_told(rejections),
        failed=_told(failures),
    )


def failed_days(scope: Scope) -> dict[str, str]:
    """The days whose building failed and would fail again, with the sentence that says why."""
    stale = {day: stale_day(DAY_STAGES, scope, day) for day in scope.raw_files}
    return _told({day: failure(DAY_STAGES, scope, day, entries) for day, entries in stale.items()})


def _told(reasons: Mapping[str, str | None]) -> dict[str, str]:
    return {partition: reason for partition, reason in reasons.items() if reason is not None}


def _later(whole: Sequence[Stage], stale: Sequence[Stale]) -> list[str]:
    """Names of the undivided stages that are fresh and read, directly or through others, what is stale."""
    moved = {entry.stage for entry in stale}
    known = set(moved)
    for stage in whole:
        if any(edge.content and edge.stage in moved for edge in stage.upstream):
            moved.add(stage.name)
    return [stage.name for stage in whole if stage.name in moved - known]


def ensure_market(config: PipelineConfig, folder: Path, *, say: Callable[[str], None]) -> list[Path]:
    """Write the days of a simulated market unless the very same ones lie there already.

    Args:
        config: an instrument with a simulator section.
        folder: where the DBN files go; `simulation.json` beside them says what made them.
        say: receives lines of progress.
    """
    simulator = simulator_of(config)
    from alpha_pipeline.simulator import VERSION, simulate_days
    from alpha_pipeline.stages.code import code_of

    record = folder / "simulation.json"
    identity = digest_json([simulator, config.instrument, VERSION, code_of("alpha_pipeline.simulator")])
    present = sorted(folder.glob("*.dbn.zst"))
    if record.is_file() and _describe(identity, present) == record.read_text():
        return present
    say(f"simulating {simulator.days} days of {config.name} into {folder}")
    writable_folder(folder)
    written = simulate_days(simulator, config.instrument, folder)
    for stray in set(present) - set(written):
        stray.unlink()
    write_atomic(record, _describe(identity, sorted(written)).encode())
    return written


def simulator_of(config: PipelineConfig) -> "SimulatorConfig":
    """Settings of the instrument's simulated market. Raises ConfigError when it has none."""
    if config.simulator is None:
        raise ConfigError(
            f"{config.name} has no [simulator] section, so no market to simulate: name one that has"
        )
    return config.simulator


def _describe(identity: str, files: Sequence[Path]) -> str:
    return canonical_json({"identity": identity, "files": {p.name: digest_file(p) for p in files}})


def _until(name: str | None) -> list[Stage]:
    names = [stage.name for stage in STAGES]
    if name is None:
        return list(STAGES)
    if name not in names:
        raise ConfigError(f"--until was {name!r}, must be one of {', '.join(names)}")
    return list(STAGES[: names.index(name) + 1])


def _chosen(scope: Scope, only: Sequence[str]) -> list[str]:
    """The days to work on, oldest first."""
    days = sorted(scope.raw_files)
    unknown = [day for day in only if day not in days]
    if unknown:
        raise ConfigError(
            f"--day was {', '.join(unknown)}, must be one of the {len(days)} days in {scope.raw} "
            f"({days[0]} to {days[-1]})"
        )
    return [day for day in days if not only or day in only]


def _launch_if_stale(
    scope: Scope,
    workspace: Workspace,
    stages: Sequence[Stage],
    days: Sequence[str],
    processes: int | None,
    say: Callable[[str], None],
) -> Launched:
    """Ask the stamps first: an answer of `all up to date` needs no orchestrator to be loaded."""
    done = Launched()
    say(f"{scope.config.name}: {len(days)} days in {scope.raw}")
    by_day, whole = [s for s in stages if s.per_day], [s for s in stages if not s.per_day]
    scope.settle(days)
    stale = [day for day in days if stale_day(stages, scope, day)]
    if stale or (whole and stale_whole(whole, scope)):
        from alpha_pipeline.launch import launch

        return launch(scope, workspace, stages, days, say, worker_count(processes, max(1, len(stale))))
    for partition, part in [*((day, by_day) for day in days), (WHOLE, whole)]:
        now = standing(part, scope, partition, ())
        done.note(partition, now.fresh, now.rejection)
    return done
