"""The signal bus: a complete registry, resets, ranges, what survives on disk and what is refused."""

import importlib
import json
import logging
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_core.control.bus import SignalBus, load_persistent, save_persistent, signal_table
from alpha_core.control.registry import SIGNALS, Reset
from alpha_core.control.smoothing import update_ema

ROOT = Path(__file__).resolve().parents[3]
PERSISTENT = [s.name for s in SIGNALS if s.reset is Reset.PERSIST]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s.name)
def test_every_signal_has_a_writer_a_reader_a_reset_and_a_legal_start(signal):
    for path in (signal.writer, signal.reader):
        module, _, function = path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), function))
    assert signal.low <= signal.initial <= signal.high
    assert signal.meaning and signal.unit
    moved = SignalBus.initial().set({signal.name: torch.tensor(signal.high)})
    after = moved.reset(signal.reset).get(signal.name)
    assert float(after) == float(torch.tensor(signal.initial, dtype=torch.float32))


def test_names_are_unique():
    assert len({s.name for s in SIGNALS}) == len(SIGNALS)


def test_signal_table_document_is_current():
    assert (ROOT / "docs" / "signals.md").read_text() == signal_table(), (
        "run: python -m alpha_core.control.bus > docs/signals.md"
    )


def test_resets_touch_their_own_rule_only():
    # q_spread is SOFT, entry_threshold FOLD, regime_floor PERSIST; a new fold starts a phase too.
    names = ("q_spread", "entry_threshold", "regime_floor")
    moved = SignalBus.initial().set({name: torch.tensor(0.25) for name in names})
    untouched = {
        rule: [name for name in names if float(moved.reset(rule).get(name)) == 0.25] for rule in Reset
    }
    assert untouched == {
        Reset.SOFT: ["entry_threshold", "regime_floor"],
        Reset.FOLD: ["regime_floor"],
        Reset.PERSIST: ["q_spread", "entry_threshold"],
    }


def test_unknown_names_are_refused():
    bus = SignalBus.initial()
    with pytest.raises(ValueError, match="q_spraed"):
        bus.get("q_spraed")
    with pytest.raises(ValueError, match="q_spraed"):
        bus.set({"q_spraed": torch.tensor(1.0)})


@given(st.dictionaries(st.sampled_from([s.name for s in SIGNALS]), st.floats(width=32), max_size=8))
@settings(max_examples=30, deadline=None)
def test_ranges_hold_for_any_input(values):
    bus = SignalBus.initial().set({k: torch.tensor(v) for k, v in values.items()})
    for signal in SIGNALS:
        low, high = torch.tensor(signal.low), torch.tensor(signal.high)
        assert low <= bus.get(signal.name) <= high


def test_a_bus_of_cells_is_the_same_code():
    bus = SignalBus.initial((2,)).set({"entry_threshold": torch.tensor([0.1, math.nan])})
    assert bus.get("entry_threshold").tolist() == pytest.approx([0.1, 0.05])
    state = update_ema(bus.ema("engagement"), torch.tensor([0.3, 0.6]))
    assert bus.set_ema("engagement", state).get("engagement").tolist() == pytest.approx([0.3, 0.6])


def test_set_leaves_the_old_bus_alone():
    bus = SignalBus.initial()
    bus.set({"entry_threshold": torch.tensor(0.4)})
    assert float(bus.get("entry_threshold")) == pytest.approx(0.05)


def test_persistent_part_survives(tmp_path):
    path = tmp_path / "bus.json"
    bus = SignalBus.initial().set(
        {"regime_floor": torch.tensor(3.3e-10), "entry_threshold": torch.tensor(0.3)}
    )
    save_persistent(bus, path)
    loaded = load_persistent(path)
    assert loaded.refused == ()
    assert torch.equal(loaded.bus.get("regime_floor"), bus.get("regime_floor"))
    assert float(loaded.bus.get("entry_threshold")) == pytest.approx(0.05)
    assert [p.name for p in tmp_path.iterdir()] == ["bus.json"]


def test_initial_values_survive_their_own_decimal_form(tmp_path):
    save_persistent(SignalBus.initial(), tmp_path / "bus.json")
    assert load_persistent(tmp_path / "bus.json").refused == ()


def test_an_absent_file_is_a_first_run(tmp_path):
    loaded = load_persistent(tmp_path / "bus.json")
    assert loaded.refused == ()
    assert torch.equal(loaded.bus.values, SignalBus.initial().values)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "format None"),
        ('{"format": "alpha-bus", "version": 99, "signals": {}}', "version 99"),
        ('{"format": "alpha-bus", "version": 1, "signals": 3}', "signals was 3"),
        ('{"format": "alpha-bus", "version": 1, "signals": {"regime_floor": NaN}}', "regime_floor was nan"),
        ('{"format": "alpha-bus", "version": 1, "signals": {"regime_floor": -1}}', "regime_floor was -1"),
        ('{"format": "alpha-bus", "version": 1, "signals": {"regime_floor": true}}', "regime_floor was True"),
        (
            '{"format": "alpha-bus", "version": 1, "signals": {"regime_floor": 1e-9, "x": 1}}',
            "x is no persistent",
        ),
        ('{"format": "alpha-bus", "version": 1, "signals": {}}', "regime_floor is absent"),
    ],
)
def test_a_bad_file_is_refused_loudly(tmp_path, caplog, text, complaint):
    path = tmp_path / "bus.json"
    path.write_text(text)
    with caplog.at_level(logging.ERROR):
        loaded = load_persistent(path)
    assert any(complaint in sentence for sentence in loaded.refused)
    assert complaint in caplog.text and "initial value" in caplog.text
    expected = 1e-9 if "1e-9" in text else 1e-12
    assert float(loaded.bus.get("regime_floor")) == pytest.approx(expected, rel=1e-6)


def test_a_writer_that_dies_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "bus.json"
    save_persistent(SignalBus.initial(), path)
    before = path.read_bytes()

    def die(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", die)
    with pytest.raises(OSError, match="disk full"):
        save_persistent(SignalBus.initial().set({"regime_floor": torch.tensor(1e-3)}), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["bus.json"]


def test_stored_names_are_the_persistent_ones(tmp_path):
    save_persistent(SignalBus.initial(), tmp_path / "bus.json")
    assert list(json.loads((tmp_path / "bus.json").read_text())["signals"]) == PERSISTENT
