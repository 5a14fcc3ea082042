"""Table schemas: what other systems let pass (lazy frames, inf, NaN, empty tables) fails here."""

import tracemalloc
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from alpha_core.errors import ConfigError, DataError
from alpha_core.shapes import LEVELS
from alpha_pipeline.evaluation.grid import COLUMNS
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.schemas import TABLES, validate, validate_slices

TIME = pl.Datetime("ns", "UTC")


def snapshots(rows: int = 4) -> pl.DataFrame:
    levels: dict[str, pl.Series] = {}
    for kind in ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct"):
        for level in range(LEVELS):
            name = f"{kind}_{level:02d}"
            best = {"bid_px": 100 - level, "ask_px": 101 + level}.get(kind, 1)
            levels[name] = pl.Series(name, [best] * rows, pl.Int64 if kind.endswith("px") else pl.UInt32)
    times = pl.Series(range(rows), dtype=pl.Int64).cast(TIME)
    return pl.DataFrame(
        {
            "ts_event": times,
            "ts_recv": times,
            "sequence": pl.Series([1] * rows, dtype=pl.UInt32),
            "instrument_id": pl.Series([1] * rows, dtype=pl.UInt32),
            "action": pl.Series(["M"] * rows, dtype=pl.Categorical),
            "side": pl.Series(["N"] * rows, dtype=pl.Categorical),
            "price": pl.Series([None] * rows, dtype=pl.Int64),
            "size": pl.Series([0] * rows, dtype=pl.UInt32),
            **levels,
            "flags": pl.Series([128] * rows, dtype=pl.UInt8),
            "book_state": pl.Series([0] * rows, dtype=pl.UInt8),
            "segment": pl.Series([0] * rows, dtype=pl.Int32),
        }
    )


def trades(rows: int = 3) -> pl.DataFrame:
    times = pl.Series(range(rows), dtype=pl.Int64).cast(TIME)
    return pl.DataFrame(
        {
            "ts_event": times,
            "ts_recv": times,
            "price": pl.Series([100] * rows, dtype=pl.Int64),
            "size": pl.Series([1] * rows, dtype=pl.UInt32),
            "aggressor": pl.Series([1] * rows, dtype=pl.Int8),
            "bid_px": pl.Series([None] * rows, dtype=pl.Int64),
            "ask_px": pl.Series([100] * rows, dtype=pl.Int64),
            "sequence": pl.Series([1] * rows, dtype=pl.UInt32),
            "snapshot_row": pl.Series(range(rows), dtype=pl.Int64),
        }
    )


def fxcache(rows: int = 3) -> pl.DataFrame:
    features = {name: pl.Series([0.5] * rows, dtype=pl.Float32) for name in FEATURE_NAMES}
    base = {
        "ts": pl.Series(range(rows), dtype=pl.Int64),
        "segment": pl.Series([0] * rows, dtype=pl.Int32),
        "mid2": pl.Series([201] * rows, dtype=pl.Int32),
    }
    return pl.DataFrame(base | features)


def grid() -> pl.DataFrame:
    integers, texts = {"episodes", "sessions"}, {"sample", "ci_unit", "undefined"}
    flags = {"episodes_overlap", "low_activity"}
    values = {}
    for name in COLUMNS:
        value = 1 if name in integers else "x" if name in texts else False if name in flags else 0.25
        values[name] = [value, value]
    values["cost"] = [0.0, 0.125]
    return pl.DataFrame(values)


def folds() -> pl.DataFrame:
    return pl.DataFrame({"fold": [0, 1], "train_rows": [10, 10], "test_rows": [5, 5], "auc": [0.5, None]})


GOOD = {"snapshots": snapshots, "trades": trades, "fxcache": fxcache, "grid": grid, "folds": folds}


def only(name: str, frame: pl.DataFrame):
    (check,) = validate(name, frame)
    assert check.name == f"{name}_schema"
    assert check.blocking
    assert check.threshold == 0
    return check


@pytest.mark.parametrize("name", TABLES)
def test_good_tables_pass(name):
    check = only(name, GOOD[name]())
    assert check.passed, check.description
    assert check.figure == 0


@pytest.mark.parametrize("name", TABLES)
def test_lazy_frame_is_refused_instead_of_passing_unchecked(name):
    with pytest.raises(DataError, match=r"is lazy .* collect it first"):
        validate(name, GOOD[name]().lazy())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TABLES)
def test_empty_table_is_flagged(name):
    check = only(name, GOOD[name]().clear())
    assert "it is empty" in check.description
    assert check.passed is (name in ("snapshots", "trades", "fxcache"))


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    ("name", "column"), [("fxcache", FEATURE_NAMES[7]), ("grid", "sharpe_session"), ("folds", "auc")]
)
def test_infinity_and_nan_are_caught_in_any_float_column(name, column, bad):
    frame = GOOD[name]()
    frame = frame.with_columns(
        pl.Series(column, [0.0, bad, *[0.0] * (frame.height - 2)], frame.schema[column])
    )
    check = only(name, frame)
    assert not check.passed
    assert f"{column} expected finite, found {bad} in rows 1" in check.description


def changed(name: str, column: str, values: list) -> pl.DataFrame:
    frame = GOOD[name]()
    return frame.with_columns(pl.Series(column, values, frame.schema[column], strict=False))


BAD = [
    ("snapshots", "book_state", [0, 6, 0, 0], "book_state expected in_range(0, 5), found 6 in rows 1"),
    ("snapshots", "action", ["M", "M", "Z", "M"], "action expected isin"),
    ("snapshots", "segment", [0, 1, 0, 1], "segment never decreases, found segment=0 in rows 2"),
    (
        "snapshots",
        "segment",
        [-1, 0, 0, 0],
        "segment expected greater_than_or_equal_to(0), found -1 in rows 0",
    ),
    ("snapshots", "bid_px_00", [100, 101, 100, 100], "a good book has both sides, bid below ask"),
    ("snapshots", "bid_px_00", [100, None, 100, 100], "a good book has both sides, bid below ask"),
    ("snapshots", "ask_px_04", [105, 105, 104, 105], "ask level 4 lies beyond level 3"),
    ("snapshots", "bid_px_03", [97, None, 97, 97], "bid level 4 lies beyond level 3"),
    ("snapshots", "size", [1, None, 1, 1], "size expected not_nullable"),
    ("trades", "aggressor", [1, 2, 0], "aggressor expected isin([-1, 0, 1]), found 2 in rows 1"),
    ("trades", "price", [1, None, 1], "price expected not_nullable"),
    ("trades", "snapshot_row", [1, 0, 2], "snapshot_row never decreases, found snapshot_row=0 in rows 1"),
    ("fxcache", "ts", [1, 0, 2], "ts never decreases"),
    ("grid", "win_rate", [0.5, 1.5], "win_rate expected in_range(0, 1), found 1.5 in rows 1"),
    ("grid", "episodes", [0, 1], "episodes expected greater_than_or_equal_to(1), found 0 in rows 0"),
    ("grid", "cost", [0.125, 0.125], "expected multiple_fields_uniqueness"),
    ("folds", "fold", [0, 0], "expected multiple_fields_uniqueness"),
]


@pytest.mark.parametrize(("name", "column", "values", "sentence"), BAD)
def test_bad_values_fail_with_expected_found_and_row(name, column, values, sentence):
    check = only(name, changed(name, column, values))
    assert not check.passed
    assert check.figure is not None
    assert check.figure >= 1
    assert sentence in check.description


@pytest.mark.parametrize("rows_at_once", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "column", "values"), [case[:3] for case in BAD if case[0] not in ("grid", "folds")]
)
def test_slices_give_the_check_of_the_whole(name, column, values, rows_at_once):
    frame = changed(name, column, values)
    slices = [frame[k : k + rows_at_once] for k in range(0, frame.height, rows_at_once)]
    assert validate_slices(name, slices) == validate(name, frame)


def test_slices_find_what_lies_on_their_border_once():
    frame = snapshots(6).with_columns(pl.Series("segment", [0, 0, 1, 0, 0, 0], pl.Int32))
    for cut in range(1, 6):
        (check,) = validate_slices("snapshots", [frame[:cut], frame[cut:]])
        assert check.figure == 1
        assert "found segment=0 in rows 3" in check.description
    bad = snapshots(3).with_columns(extra=1)
    assert validate_slices("snapshots", [bad[:1], bad[1:]]) == validate("snapshots", bad), (
        "wrong columns count once"
    )


SPOILS = {
    "snapshots": {
        "book_state": 9,
        "bid_px_00": None,
        "ask_px_02": 0,
        "segment": -1,
        "action": "Z",
        "flags": None,
    },
    "trades": {"aggressor": 5, "price": None, "snapshot_row": -1, "size": None},
    "fxcache": {"ts": 0, "segment": -2, "mid2": None, FEATURE_NAMES[3]: float("inf")},
}


def spoiled(name: str, rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """A table with bad values in random cells, and twice as many in its first, last and middle rows."""
    frame = GOOD[name](rows)
    for column, value in SPOILS[name].items():
        values = frame[column].to_list()
        at = {*rng.integers(0, rows, 2), *rng.choice([0, rows // 2 - 1, rows // 2, rows - 1], 2)}
        for row in at:
            values[row] = value
        frame = frame.with_columns(pl.Series(column, values, frame.schema[column]))
    return frame


@pytest.mark.parametrize("name", SPOILS)
@pytest.mark.parametrize("seed", range(4))
def test_random_tables_give_the_same_check_however_they_are_sliced(name, seed):
    rng = np.random.default_rng(seed)
    frame = spoiled(name, 40, rng)
    whole = validate(name, frame)
    assert not whole[0].passed
    for inner in ([20], [1, 20, 39], sorted(rng.integers(0, 41, 6).tolist())):
        slices = [frame[low:high] for low, high in pairwise([0, *inner, 40])]
        assert validate_slices(name, slices) == whole


def test_a_slice_of_nothing_but_bad_rows_takes_no_memory_for_each():
    """Pandera makes an object of each bad row for each rule: with ten rules, gigabytes for a slice of a day."""
    rows = 20_000
    frame = snapshots(rows).with_columns(pl.lit(7, pl.Int64).alias(f"ask_px_{k:02d}") for k in range(10))
    only("snapshots", snapshots())
    tracemalloc.start()
    check = only("snapshots", frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert check.figure == 10 * rows, "ask below bid, and nine levels that lie on each other"
    assert peak < 20e6


def test_times_going_backwards_are_found():
    check = only("snapshots", snapshots().reverse())
    assert "ts_recv never decreases" in check.description
    assert check.figure == 3


@pytest.mark.parametrize("name", ["snapshots", "trades"])
def test_missing_additional_and_retyped_columns(name):
    frame = GOOD[name]()
    assert "expected column_in_dataframe, found sequence" in only(name, frame.drop("sequence")).description
    assert "found extra" in only(name, frame.with_columns(extra=1)).description
    assert "sequence expected dtype('UInt32')" in only(name, frame.cast({"sequence": pl.Int64})).description
    reordered = frame.select(frame.columns[1:] + frame.columns[:1])
    assert "column_ordered" in only(name, reordered).description


def test_many_problems_are_summed_and_cut():
    frame = snapshots(50).with_columns(
        *(pl.lit(None, pl.UInt32).alias(f"bid_sz_{k:02d}") for k in range(10)), book_state=pl.lit(9, pl.UInt8)
    )
    check = only("snapshots", frame)
    assert check.figure == 550
    assert "more rules" in check.description
    assert len(check.description) < 1500


def test_validation_cannot_be_switched_off_by_the_environment(monkeypatch):
    from pandera.config import CONFIG

    monkeypatch.setattr(CONFIG, "validation_enabled", False)
    assert not only("trades", changed("trades", "aggressor", [1, 2, 0])).passed


def test_unknown_table_is_named():
    with pytest.raises(ConfigError, match="schema was 'nope', must be one of snapshots"):
        validate("nope", snapshots())
