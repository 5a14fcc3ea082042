"""At rho = 0 none of the 40 features, and no simple model of them, foretells the mid: files to features to scores.

Every score gives one figure a day, the mean of g(features) x change of the mid, where g was fixed on earlier days. Of a
martingale its expectation is exactly 0; a correlation within the day would not be, since centring on the day's own mean
looks ahead. The mean over days has a standard error without assumptions on what happens inside a day. The bounds are
those of a t distribution, divided by the number of figures looked at (Bonferroni).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.stream import compute_day
from alpha_pipeline.ingest import SNAPSHOTS, TRADES, ingest_day
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_days

LEVEL = 0.001
"""Chance that a true null fails one of these tests."""

HORIZONS = {100: 1, 1000: 3}
"""Horizon in snapshots -> its column among the labels."""

STRIDE = 10


@dataclass(frozen=True)
class Sample:
    """One day: features [R, 40] and label changes [R] with their validity, by horizon."""

    features: np.ndarray
    change: dict[int, np.ndarray]
    valid: dict[int, np.ndarray]


def sample(folder: Path, config: SimulatorConfig, days: int) -> list[Sample]:
    """Days as the pipeline sees them: a file, its tables, its features; one row in ten snapshots."""
    spec, found = InstrumentSpec(), []
    for k in range(days):
        (path,) = simulate_days(config, spec, folder / "raw", [config.day(k)])
        ingest_day([path], spec, folder / "day")
        made = compute_day(
            folder / "day" / SNAPSHOTS,
            folder / "day" / TRADES,
            FeatureConfig(sampler=SamplerConfig(n=STRIDE)),
        )
        change = {h: made.labels.change[:, column].astype(float) for h, column in HORIZONS.items()}
        valid = {h: made.labels.valid[:, column] for h, column in HORIZONS.items()}
        found.append(Sample(made.columns["features"].copy(), change, valid))
        path.unlink()
    return found


def t_of(figures: list[float]) -> float:
    """Mean over its standard error."""
    values = np.asarray(figures)
    return float(values.mean() / (values.std(ddof=1) / np.sqrt(len(values))))


def bound(looks: int, days: int) -> float:
    return float(stats.t.isf(LEVEL / 2 / looks, days - 1))


def feature_t(known: list[Sample], days: list[Sample]) -> dict[tuple[str, int], float]:
    """t of each feature's daily figures, by horizon; g is its rank among the values of the `known` days."""
    values = np.sort(np.concatenate([day.features for day in known]), axis=0)
    found = {}
    for column, name in enumerate(FEATURE_NAMES):
        ranks = [
            np.searchsorted(values[:, column], day.features[:, column]) / len(values) - 0.5 for day in days
        ]
        for horizon in HORIZONS:
            figures = [figure(rank, day, horizon) for rank, day in zip(ranks, days, strict=True)]
            found[name, horizon] = t_of(figures)
    return found


def figure(g: np.ndarray, day: Sample, horizon: int) -> float:
    ok = day.valid[horizon]
    return float(np.mean(g[ok] * day.change[horizon][ok]))


def model_t(known: list[Sample], days: list[Sample], horizon: int = 1000) -> dict[str, float]:
    """t of the daily figures of models that were fitted on the `known` days; g is P(up) - 1/2."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = [day.valid[horizon] & (day.change[horizon] != 0) for day in known]
    x = np.concatenate([day.features[ok] for day, ok in zip(known, rows, strict=True)])
    up = np.concatenate([day.change[horizon][ok] > 0 for day, ok in zip(known, rows, strict=True)])
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200)),
        "trees": HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, learning_rate=0.1, random_state=0
        ),
    }
    found = {}
    for name, model in models.items():
        model.fit(x, up)
        figures = [figure(model.predict_proba(day.features)[:, 1] - 0.5, day, horizon) for day in days]
        found[name] = t_of(figures)
    return found


def looks(days: list[Sample]) -> dict[object, tuple[float, float]]:
    """Every figure's t and the bound it is held against."""
    half = len(days) // 2
    known, rest = days[:half], days[half:]
    figures = feature_t(known, rest) | model_t(known, rest)
    most = bound(len(figures), len(rest))
    return {name: (t, most) for name, t in figures.items()}


def beyond(found: dict[object, tuple[float, float]]) -> dict[object, float]:
    return {name: t for name, (t, most) in found.items() if abs(t) > most}


def test_small_null_market_is_not_predicted_and_a_planted_one_is(tmp_path):
    config = SimulatorConfig(events_per_day=8_000, rho=0.0, seed=5)
    assert beyond(looks(sample(tmp_path, config, 48))) == {}
    found = beyond(looks(sample(tmp_path, replace(config, rho=1.0), 48)))
    assert found, "the test could not see an alpha"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_null_market_of_five_million_snapshots_is_not_predicted_and_a_weak_one_is(tmp_path):
    config = SimulatorConfig(events_per_day=80_000, rho=0.0, seed=13)
    days = sample(tmp_path, config, 64)
    assert sum(len(day.features) for day in days) * STRIDE >= 5_000_000
    found = looks(days)
    worst = max(found, key=lambda name: abs(found[name][0]))
    print(f"null: largest t {found[worst][0]:.2f} ({worst}), bound {found[worst][1]:.2f}, {len(found)} looks")
    assert beyond(found) == {}
    weak = looks(sample(tmp_path, replace(config, rho=0.3), 64))
    told = beyond(weak)
    print(f"rho 0.3: {len(told)} of {len(weak)} beyond their bounds")
    assert told, "the test could not see a weak alpha"
