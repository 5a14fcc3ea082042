"""A report with every kind of figure, from made-up but plausible numbers. Run it to look at the page."""

import sys
from pathlib import Path

import numpy as np
import polars as pl

from alpha_core.metrics.calibration import CalibrationBin
from alpha_core.shapes import HORIZONS
from alpha_core.training.scoring import HorizonMetrics
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.evidence import GateEvidence, PerceptionEvidence
from alpha_pipeline.evaluation.gate import judge
from alpha_pipeline.evaluation.looks import LookCount
from alpha_pipeline.evaluation.oos import OosSeries
from alpha_pipeline.evaluation.series import PnlSeries
from alpha_pipeline.report import figures
from alpha_pipeline.report.html import ReportInputs, Section, render_report
from alpha_pipeline.results import Check

START = 1_709_251_200_000_000_000


def series(pnl: np.ndarray, days: int) -> PnlSeries:
    blocks = pnl.size // days
    names = [f"2024-03-{1 + d:02d}" for d in np.repeat(np.arange(days), blocks)]
    return PnlSeries(
        day=tuple(names),
        block=tuple(int(b) for b in np.tile(np.arange(blocks), days)),
        time_ns=START + np.arange(pnl.size, dtype=np.int64) * 86_400_000_000_000 // blocks,
        pnl_ticks=pnl,
        episodes=np.full(pnl.size, 4, dtype=np.int64),
        trades=np.full(pnl.size, 5, dtype=np.int64),
    )


def oos(mean: float) -> OosSeries:
    noise = np.random.default_rng(1).normal(0.0, 8.0, 60)
    pnl = mean + noise
    return OosSeries(
        chosen=series(pnl, 5),
        next_cost=series(pnl - 2.0, 5),
        queue_fill=series(pnl - 1.0, 5),
        random=series(noise * 0.6 - 5.0, 5),
        threshold_rule=series(pnl - 1.5, 5),
    )


def verdict(mean: float) -> dict:
    check = Check(name="stamps_agree", passed=True, figure=0.0, threshold=0.0, description="all agree")
    evidence = GateEvidence(
        instrument="demo",
        sessions_a_year=252.0,
        chosen=ChosenCell(
            cost=0.125,
            cost_ticks=0.5,
            next_cost=0.25,
            threshold=0.1,
            sharpe=0.31,
            unit="intraday block",
            observations=144,
            sessions=12,
            tried=6,
        ),
        oos=oos(mean),
        perception=[
            PerceptionEvidence(horizon=s.horizon, auc=s.auc, auc_low=s.auc_low, auc_high=s.auc_high, n=s.n)
            for s in scores()
        ],
        kill_criteria=[check],
        data_quality=[check],
        reproducibility=[check],
        lineage=[check],
        looks=LookCount(earlier=1, overlapping=0),
    )
    return judge(evidence, GateConfig(resamples=200)).to_dict()


def scores() -> list[HorizonMetrics]:
    return [
        HorizonMetrics(
            horizon=h,
            n=5000 - 300 * i,
            ties=900 - 150 * i,
            positive=0.5,
            auc=0.64 - 0.02 * i,
            auc_low=0.62 - 0.025 * i,
            auc_high=0.66 - 0.015 * i,
            brier=0.24,
            mcc=0.1,
            accuracy=0.56,
            leakage=False,
            bins=tuple(
                CalibrationBin(b / 10, (b + 1) / 10, 200, b / 10 + 0.05, min(1.0, b / 10 + 0.03 * (i + 1)))
                for b in range(2, 8)
            ),
        )
        for i, h in enumerate(HORIZONS)
    ]


def cells() -> pl.DataFrame:
    rows = [
        {
            "cost": cost,
            "threshold": tau,
            "sample": "in-sample",
            "episodes_overlap": True,
            "mean_pnl_ticks": 6.0 - 30.0 * cost * (1.0 - 2.0 * tau) - 10.0 * tau,
            "ci_low_ticks": None,
            "undefined": "",
        }
        for cost in (0.0, 0.0625, 0.125, 0.25, 0.5)
        for tau in (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
    ]
    return pl.DataFrame(rows, schema_overrides={"ci_low_ticks": pl.Float64})


def sections() -> list[Section]:
    days = pl.DataFrame(
        {
            "day": [f"2024-02-{d}" for d in range(20, 28)],
            "status": ["ok"] * 7 + ["rejected"],
            "snapshots": [60_000 + 700 * i for i in range(8)],
            "cached_rows": [*(20_000 + 300 * i for i in range(7)), None],
            "rejected_by": ["nothing"] * 7 + ["share of snapshots whose book is locked or crossed: 0.2"],
        }
    )
    history = [
        {
            "train_loss": 0.69 / (1 + i / 30),
            "validation_loss": 0.692 / (1 + i / 40),
            "validation_auc_300": 0.5 + i / 90,
        }
        for i in range(8)
    ]
    folds = pl.DataFrame({"fold": [0, 1, 2], "auc": [0.61, 0.6, 0.63], "mean_pnl_ticks": [3.2, -0.4, 2.1]})
    fills = pl.DataFrame(
        {
            "decile": range(1, 11),
            "expected_fills": np.linspace(5, 80, 10),
            "observed_fills": [6, 12, 20, 33, 36, 50, 52, 66, 75, 77],
        }
    )
    gates = dict(
        zip([f"feature_{i}" for i in range(40)], np.random.default_rng(0).dirichlet(np.ones(40)), strict=True)
    )
    return [
        Section(
            title="Market data",
            text="Each day against the instrument's thresholds; a failing day is left out below.",
            figures=[figures.quality_figure(days)],
            tables=[("Days", days)],
        ),
        Section(
            title="Fill model",
            text="Expected and observed fills.",
            figures=[figures.fill_calibration_figure(fills)],
        ),
        Section(
            title="Perception",
            text="P(up) at five horizons on validation rows.",
            figures=[
                figures.auc_figure(scores()),
                figures.calibration_figure(scores()),
                figures.learning_curve_figure(history),
                figures.feature_gate_figure(gates),
            ],
        ),
        Section(
            title="Backtest grid, in sample",
            text="On rows the policy was trained on: to explore, not to believe.",
            figures=[figures.grid_figure(cells())],
            tables=[("Cells", cells())],
        ),
        Section(title="Walk-forward", figures=[figures.fold_figure(folds)], tables=[("Folds", folds)]),
        Section(title="Out of sample", figures=[figures.equity_figure(oos(4.0))]),
    ]


def inputs(mean: float = 4.0) -> ReportInputs:
    return ReportInputs(
        title="demo: verdict and how it was reached",
        instrument="demo",
        verdict=verdict(mean),
        sections=sections(),
        lineage={"code revision": "1a2b3c4d5e6f", "seed": "7", "fxcache 2024-02-20": "content 0f" * 6},
    )


if __name__ == "__main__":
    print(render_report(inputs(float(sys.argv[2])), Path(sys.argv[1])))
