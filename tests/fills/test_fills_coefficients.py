"""`fill_coeffs.json`: every bit comes back, and everything else is refused with one sentence."""

import json

import pytest
import torch

from alpha_core.errors import InputError
from alpha_core.market.fills import FILL_COVARIATES
from alpha_pipeline.fills.coefficients import (
    FillCoefficients,
    load_fill_model,
    read_coefficients,
    write_coefficients,
)

COUNT = len(FILL_COVARIATES)


def some_coefficients(**changes):
    values = {
        "fitted": True,
        "intercept": [[0.1 + level, -0.2] for level in range(5)],
        "slope": [0.3] * COUNT,
        "low": [-1.0] * COUNT,
        "high": [1.0 / 3.0] * COUNT,
        "intercept_errors": [[0.01, 0.02]] * 5,
        "slope_errors": [0.001] * COUNT,
        "exposures": 1000,
        "fills": 200,
        "seconds": 12.5,
        "rows": 5000,
        "days": 2,
        "rows_per_order": 30,
        "cancel_ahead_share": 0.5,
        "dispersion": 1.2,
        "deviance_explained": -0.1,
        "digests": {"2024-01-02": "ab"},
    }
    return FillCoefficients(**{**values, **changes})


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "fill_coeffs.json"
    write_coefficients(some_coefficients(), path)
    assert read_coefficients(path) == some_coefficients()
    model = load_fill_model(path)
    assert model.intercept.tolist() == [[0.1 + level, -0.2] for level in range(5)]
    assert torch.equal(model.high, torch.full((COUNT,), 1.0 / 3.0, dtype=torch.float64))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extra": 1}, "extra was 1"),
        ({"slope": [float("nan")] * COUNT}, "slope.0 was nan"),
        ({"slope": [float("inf")] * COUNT}, "slope.0 was inf"),
        ({"slope": [99.0] * COUNT}, "slope.0 was 99.0, input should be less than or equal to 60"),
        ({"slope": [0.1]}, "slope must have 7 entries when fitted is True"),
        ({"intercept": [[0.0, 0.0]] * 4}, "intercept must have 5 entries"),
        ({"slope_errors": [-1.0] * COUNT}, "slope_errors.0 was -1.0"),
        ({"covariates": ["spread"]}, "covariates was"),
        ({"unit": "fills per hour"}, "unit was 'fills per hour'"),
        ({"version": 2}, "version was 2"),
        ({"fills": -1}, "fills was -1"),
        ({"cancel_ahead_share": 1.5}, "cancel_ahead_share was 1.5"),
        ({"low": [2.0] * COUNT}, "low must not exceed high"),
        ({"reason": "no trades"}, "reason must be given exactly when fitted is false"),
    ],
)
def test_other_content_is_refused_by_name(tmp_path, change, sentence):
    path = tmp_path / "fill_coeffs.json"
    content = {**some_coefficients().model_dump(mode="json"), **change}
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        load_fill_model(path)
    text = str(refused.value)
    assert sentence in text
    assert text.startswith(str(path))
    assert text.endswith("fit the fill model again")
    assert "\n" not in text


def test_absent_and_broken_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist: fit the fill model first"):
        load_fill_model(tmp_path / "none.json")
    path = tmp_path / "half.json"
    path.write_text('{"fitted": tr')
    with pytest.raises(InputError, match=r"half.json is not JSON"):
        load_fill_model(path)
