"""The page of a simulated market's facts: it shows what was computed, and fetches and runs nothing."""

import html
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from alpha_pipeline.cli import main
from alpha_pipeline.report.market_facts import sections, write_page
from alpha_pipeline.simulator import SimulatorConfig
from alpha_pipeline.simulator.stylised import StylisedFacts, facts_of_market

TICK_NANOS = 250_000_000
CONFIG = SimulatorConfig(events_per_day=20_000, halts_per_day=1.0)
TABLE_ROW = re.compile(r'<tr><td class="[a-z]*">([^<]+)</td><td class="number">([^<]+)</td>')


@pytest.fixture(scope="module")
def facts() -> StylisedFacts:
    return facts_of_market(CONFIG, TICK_NANOS, 2)


@pytest.fixture(scope="module")
def text(facts, tmp_path_factory) -> str:
    out = tmp_path_factory.mktemp("page") / "deeper" / "facts.html"
    return write_page(facts, CONFIG, "a <b>market</b>", 2, out).read_text()


def drawings(text: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]


def hints(svg: ET.Element) -> list[str]:
    return [mark.findtext("title", "") for kind in ("circle", "rect") for mark in svg.iter(kind)]


def test_every_point_of_every_curve_is_drawn(facts, text):
    curves = (
        facts.spreads,
        facts.depth,
        facts.impact,
        facts.explained,
        facts.trade_signs,
        facts.returns,
        facts.volatility,
    )
    found = drawings(text)
    assert len(found) == len(curves)
    for svg, curve in zip(found, curves, strict=True):
        assert hints(svg) == [f"{x:.6g}: {y:.6g}" for x, y in zip(curve.x, curve.y, strict=True)]


def test_tables_show_the_computed_figures_beside_published_ones(facts, text):
    shown = {html.unescape(name): value for name, value in TABLE_ROW.findall(text)}
    compared = {row for section in sections(facts) for _, table in section.tables for row in table["fact"]}
    assert {name: shown[name] for name in compared} == {
        name: f"{facts.numbers[name]:.4g}" for name in compared
    }
    assert {k: shown[k] for k in ("days", "events", "trades", "windows")} == {
        "days": "2",
        "events": str(facts.events),
        "trades": str(facts.trades),
        "windows": str(facts.windows),
    }
    for source in (
        "Lillo and Farmer",
        "Cont, Kukanov and Stoikov",
        "Dayri and Rosenbaum",
        "Bouchaud, Mézard",
    ):
        assert source in text


def test_every_section_names_a_source_for_what_it_calls_published(facts):
    for section in sections(facts):
        ((_, table),) = section.tables
        rows = list(zip(table["published"], table["source"], strict=True))
        assert rows[0][0] != "–"
        assert all((published == "–") == (source == "–") for published, source in rows)


def test_page_is_self_contained_escaped_and_without_script(text):
    assert not re.search(r"<script|<img|<link|https?://|\bsrc=|@import|url\(", text)
    assert "<b>" not in text
    assert "a &lt;b&gt;market&lt;/b&gt;" in text
    assert "simulator.seed" in text


def test_same_seed_gives_the_same_bytes_and_another_seed_others(text, tmp_path):
    again, other = (
        write_page(
            facts_of_market(config, TICK_NANOS, 2), config, "a <b>market</b>", 2, tmp_path / "f.html"
        ).read_text()
        for config in (CONFIG, replace(CONFIG, seed=8))
    )
    assert again == text
    assert other != text


def test_command_writes_the_page_and_prints_the_figures(tmp_path, monkeypatch, capsys):
    (tmp_path / "instruments").mkdir()
    (tmp_path / "instruments" / "small.toml").write_text(
        '[instrument]\nname = "small"\nsymbols = ["DEMO"]\ntick_size = "0.25"\nmultiplier = 50.0\ncurrency = "USD"\n'
        'calendar = "24/7"\n\n[simulator]\ndays = 2\nevents_per_day = 20000\nhalts_per_day = 1.0\n'
    )
    monkeypatch.setenv("ALPHA_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as left:
        main(["facts", "--instrument", "small", "--html", str(tmp_path / "facts.html")])
    assert left.value.code == 0
    facts = facts_of_market(CONFIG, TICK_NANOS, 2)
    assert capsys.readouterr().out.splitlines() == [f"{k}: {v:.4g}" for k, v in facts.numbers.items()]
    assert len(drawings((tmp_path / "facts.html").read_text())) == 7
