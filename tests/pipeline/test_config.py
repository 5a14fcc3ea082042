"""Instrument files are typed; whatever is wrong in one is told in one sentence."""

from pathlib import Path

import pytest

from alpha_core.errors import ConfigError
from alpha_pipeline.config import available, load
from alpha_pipeline.paths import PROJECT, Workspace


def workspace(folder: Path, text: str, name: str = "mine") -> Workspace:
    (folder / "instruments").mkdir(exist_ok=True)
    (folder / "instruments" / f"{name}.toml").write_text(text)
    return Workspace(folder)


@pytest.mark.parametrize("name", available(Workspace(PROJECT)))
def test_every_shipped_instrument_loads(name):
    assert load(name, Workspace(PROJECT)).name == name


def test_null_market_differs_from_the_demo_by_its_strength_alone():
    demo, null = (load(name, Workspace(PROJECT)) for name in ("demo", "demo-null"))
    assert null.simulator.rho == 0.0
    assert demo.simulator.rho > 0.0
    assert null.gate == demo.gate
    assert null.model_dump(exclude={"instrument": {"name"}, "simulator": {"rho"}}) == demo.model_dump(
        exclude={"instrument": {"name"}, "simulator": {"rho"}}
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[instrument]\ncolour = 1", "mine.toml: unknown key 'instrument.colour'"),
        ("[instrumnt]\nname = 'x'", "unknown key 'instrumnt'"),
        ("[instrument]\n[market]\nlatency = -1", "latency was -1, must be in"),
        ("[instrument]\n[grid]\nepisodes = 'many'", "grid.episodes was 'many'"),
        ("seed = -1\n[instrument]", "seed was -1"),
        ("threads = 0\n[instrument]", "threads was 0"),
        ("device = 'tpu'\n[instrument]", "device was 'tpu'"),
        ("[instrument", "is not valid TOML"),
    ],
)
def test_bad_configuration_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(ConfigError) as caught:
        load("mine", workspace(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_instrument_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"no instrument named 'gold'.*known: mine.*add gold.toml"):
        load("gold", workspace(tmp_path, "[instrument]"))
