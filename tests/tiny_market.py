"""A market small enough to run in tests: three instruments of one format, made by the product's own simulator."""

import shutil
from dataclasses import replace
from pathlib import Path

from alpha_pipeline.artifacts import WHOLE, Artifact
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.run import scope_of
from alpha_pipeline.simulator import simulate_days
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Scope, Stage, execute

NAME, SYMBOL = "tiny", "TINY"
DAY_STAGES = [stage.name for stage in STAGES if stage.per_day]
WHOLE_STAGES = [stage.name for stage in STAGES if not stage.per_day]

CONFIG = """
[instrument]
name = "tiny"
symbols = ["TINY"]
tick_size = "0.25"
calendar = "24/7"

[features.sampler]
n = 2

[market]
horizon = 40

[perception]
hidden = 8
state = 4
heads = 1
length = 32
streams = 16
epochs = 1

[policy]
hidden = 8
atoms = 11
lanes = 16
sweeps = 1
updates = 2
batch = 64

[fills]
max_exposures = 4000
referee_orders = 100
min_fills = 3

[grid]
episodes = 20
baseline_episodes = 50
resamples = 100

[walk_forward]
folds = 2
train_share = 0.7
validation_share = 0.4
label_horizon = 300
purge_rows = 100
purge_snapshots = 300
embargo_rows = 40
oos_days = 1

[gate]
perception_floor = "show"
min_oos_days = 2
min_oos_blocks = 4
resamples = 100
"""


def day(index: int) -> str:
    """Key of a day of the market."""
    return SimulatorConfig().day(index)


def file_of(folder: Path, index: int) -> Path:
    """The raw file of a day."""
    return folder / f"{SYMBOL}-{day(index)}.mbp-10.dbn.zst"


def write_days(folder: Path, days: int, events: int = 3000) -> list[Path]:
    """Raw files of the first days."""
    config = SimulatorConfig(symbol=SYMBOL, days=days, events_per_day=events)
    return simulate_days(config, InstrumentSpec(name=NAME, symbols=(SYMBOL,)), folder)


def make_workspace(root: Path, *, days: int, config: str = CONFIG) -> Workspace:
    """A workspace whose default folder of raw files holds so many days."""
    workspace = Workspace(root)
    configure(workspace, config)
    write_days(workspace.raw(NAME), days)
    return workspace


def configure(workspace: Workspace, config: str) -> None:
    """Write the instrument's file."""
    (workspace.root / "instruments").mkdir(parents=True, exist_ok=True)
    (workspace.root / "instruments" / f"{NAME}.toml").write_text(config)


def copy_of(workspace: Workspace, root: Path) -> Workspace:
    """The same workspace elsewhere, to be spoiled by one test."""
    shutil.copytree(workspace.root, root, dirs_exist_ok=True)
    return Workspace(root)


def scope(workspace: Workspace) -> Scope:
    """A fresh view of a workspace: nothing read before is remembered."""
    return scope_of(NAME, workspace, raw=None, say=lambda _: None)


def build_day(workspace: Workspace, key: str, names: list[str] = DAY_STAGES) -> dict[str, Artifact]:
    """Run the day's stages without an orchestrator."""
    stages = [stage for stage in STAGES if stage.name in names]
    return {stage.name: execute(stage, scope(workspace), key, {})[1] for stage in stages}


def publish_whole(workspace: Workspace, names: list[str] = WHOLE_STAGES, passed: bool = True) -> None:
    """Publish undivided stages with their true stamps and next to nothing inside, as if they had been fitted."""
    for stage in STAGES:
        if stage.name in names:
            execute(replace(stage, run=lambda _, s=stage: _said(s, passed)), scope(workspace), WHOLE, {})


def _said(stage: Stage, passed: bool) -> StageResult:
    checks = [
        Check(name=name, passed=passed, figure=1.0, threshold=1.0, description=name, blocking=blocking)
        for name, blocking in stage.checks.items()
    ]
    return StageResult(metrics={"figure": 1.0}, checks=checks)
