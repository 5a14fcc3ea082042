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


def test_null_market_differs_from_the_demo_by_its_strength_and_by_showing_its_floor():
    demo, null = (load(name, Workspace(PROJECT)) for name in ("demo", "demo-null"))
    assert null.simulator.rho == 0.0
    assert demo.simulator.rho > 0.0
    assert (demo.gate.perception_floor, null.gate.perception_floor) == ("block", "show")
    own = {"instrument": {"name"}, "simulator": {"rho"}, "gate": {"perception_floor"}}
    assert null.model_dump(exclude=own) == demo.model_dump(exclude=own)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[instrument]\ncolour = 1", "unknown key 'instrument.colour'"),
        ("[instrumnt]\nname = 'x'", "unknown key 'instrumnt'"),
        ("[instrument]\n[market]\nlatency = -1", "latency was -1, must be in"),
        ("[instrument]\n[grid]\nepisodes = 'many'", 'grid.episodes was "many", must be a whole number'),
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[instrument]\ntick_size = 0.25", 'instrument.tick_size was 0.25, must be text in quotes: "0.25"'),
        ("[instrument]\nsymbols = 'ES'", 'instrument.symbols was "ES", must be a list: ["ES"]'),
        ("[instrument]\nname = true", 'instrument.name was true, must be text in quotes: "true"'),
        ("[perception]\nepochs = true", "perception.epochs was true, must be a whole number"),
        ("[perception]\nepochs = 3.0", "perception.epochs was 3.0, must be a whole number: 3"),
        ("[perception]\nepochs = '3'", 'perception.epochs was "3", must be a whole number: 3 without quotes'),
        ("[perception]\nlearning_rate = true", "perception.learning_rate was true, must be a number"),
        ("[perception]\nvsn = 1", "perception.vsn was 1, must be true or false: true"),
        ("[grid]\ncosts = [0, true]", "grid.costs.1 was true, must be a number"),
        ("perception = 1", "perception was 1, must be a section of its own"),
        ("threads = true", "threads was true, must be a whole number"),
    ],
)
def test_value_of_the_wrong_form_is_told_with_the_right_one(tmp_path, text, sentence):
    with pytest.raises(ConfigError) as caught:
        load("mine", workspace(tmp_path, text))
    assert sentence in str(caught.value).split(": ", 1)[1].split("; ")


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400", "[0.1, inf]", "[[nan]]"])
@pytest.mark.parametrize(
    "key",
    [
        "perception.feature_clip",
        "perception.learning_rate",
        "perception.weight_decay",
        "instrument.multiplier",
        "x.y",
    ],
)
def test_no_setting_takes_a_number_that_is_not_finite(tmp_path, key, value):
    section, name = key.split(".")
    with pytest.raises(ConfigError, match=rf"{key}[.0-9]* was (-?inf|nan), must be a finite number"):
        load("mine", workspace(tmp_path, f"[{section}]\n{name} = {value}"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"[perception]\nlayers = {10**20}",
            f"perception.layers was {10**20}, must be a whole number of at most",
        ),
        (f"[perception]\nlayers = -{10**20}", "must be a whole number of at most 4294967295"),
        (f"[perception]\nlayers = 0x{'f' * 5000}", "layers was a number of 20000 bits, must be"),
        (f"[perception]\nlayers = {'9' * 5000}", "is not valid TOML"),
        ("x = " + "[" * 5000 + "]" * 5000, "is not valid TOML"),
        ('[source]\nraw = "\\u0000"', r"source.raw was '\x00', must be text of one line"),
        (
            "[simulator]\nstart_date = 2024-01-02",
            'start_date was 2024-01-02 without quotes, must be text in quotes: "',
        ),
        ('base = ""', "base was '', must be the name of another instrument"),
        ('base = "../mine"', "base was '../mine', must be the name of another instrument"),
        ("base = 1", "base was 1, must be the name of another instrument"),
        (
            "[walk_forward]\nlabel_horizon = 100000",
            "and label_horizon 100000: raise purge_snapshots to label_horizon or lower label_horizon to it",
        ),
    ],
)
def test_value_that_no_setting_takes(tmp_path, text, sentence):
    with pytest.raises(ConfigError) as caught:
        load("mine", workspace(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_serve_where_numbers_are_asked_for(tmp_path):
    text = instrument(multiplier="20") + "\n[grid]\ncosts = [0, 1]\n[simulator]\ninstrument_id = 4294967295\n"
    config = load("mine", workspace(tmp_path, text))
    assert (config.instrument.multiplier, config.grid.costs) == (20.0, (0.0, 1.0))
    assert isinstance(config.instrument.multiplier, float)


MINE = {"name": "'mine'", "symbols": "['M']", "tick_size": "'0.25'", "calendar": "'24/7'"}


def instrument(**changes: str | None) -> str:
    lines = [f"{key} = {value}" for key, value in (MINE | changes).items() if value is not None]
    return "\n".join(["[instrument]", *lines])


@pytest.mark.parametrize("key", MINE)
def test_what_tells_one_market_from_another_has_no_default(tmp_path, key):
    """Without its tick size a market would be read on the grid of the demo."""
    assert load("mine", workspace(tmp_path, instrument())).name == "mine"
    with pytest.raises(ConfigError, match=f"^mine.toml: instrument must say {key}, which have no default$"):
        load("mine", workspace(tmp_path, instrument(**{key: None})))


def test_a_base_may_say_it(tmp_path):
    workspace(tmp_path, instrument(name="'below'"), "below")
    assert load(
        "mine", workspace(tmp_path, "base = 'below'\n[instrument]\nname = 'mine'")
    ).instrument.tick_size


@pytest.mark.parametrize("calendar", ["XXXX", "cmes", "ALWAYS"])
def test_unknown_calendar_is_refused_when_the_file_is_read(tmp_path, calendar):
    with pytest.raises(ConfigError) as caught:
        load("mine", workspace(tmp_path, instrument(calendar=f"'{calendar}'")))
    assert str(caught.value) == (
        f"mine.toml: calendar was '{calendar}', must be '24/7' or a code of exchange_calendars like 'CMES' or 'XNYS'"
    )


@pytest.mark.parametrize("calendar", ["CMES", "XNYS", "NYSE", "24/5", "24/7"])
def test_known_calendars_load(tmp_path, calendar):
    assert (
        load("mine", workspace(tmp_path, instrument(calendar=f"'{calendar}'"))).instrument.calendar
        == calendar
    )


def test_problems_of_all_sections_are_told_at_once(tmp_path):
    text = instrument(tick_size="'-1'", calendar=None) + (
        "\n[quality]\nmin_rows = -1\nmax_crossed_fraction = 2\n[market]\nlatency = -1\n[gird]\nx = 1\n"
    )
    with pytest.raises(ConfigError) as caught:
        load("mine", workspace(tmp_path, text))
    told = str(caught.value)
    for sentence in (
        "instrument must say calendar, which",
        "tick_size was '-1', must be a positive decimal",
        "min_rows was -1, must be at least 0",
        "max_crossed_fraction was 2",
        "latency was -1, must be in",
        "unknown key 'gird'",
    ):
        assert told.count(sentence) == 1, told
    assert "\n" not in told


def test_unknown_instrument_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"no instrument named 'gold'.*known: mine.*add gold.toml"):
        load("gold", workspace(tmp_path, "[instrument]"))
