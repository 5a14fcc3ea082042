"""The report: one file that needs nothing else, shows what it was given, and trusts no text."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
import sample_report

from alpha_pipeline.report import figures
from alpha_pipeline.report.html import MAX_ROWS, ReportInputs, Section, page, render_report
from alpha_pipeline.report.style import plain

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&amp;"


def without_library(text: str) -> str:
    from plotly.offline import get_plotlyjs

    return text.replace(get_plotlyjs(), "")


def small(**changes) -> ReportInputs:
    return ReportInputs(**({"title": "t", "instrument": "demo", "verdict": None} | changes))


@pytest.fixture(scope="module")
def whole() -> str:
    return page(sample_report.inputs())


def test_the_page_is_one_file_below_eight_megabytes(tmp_path):
    out = render_report(sample_report.inputs(), tmp_path / "run" / "report.html")
    assert out == tmp_path / "run" / "report.html"
    assert 4e6 < out.stat().st_size < 8e6
    assert [p.name for p in out.parent.iterdir()] == ["report.html"], "no temporary file is left"


def test_the_library_is_carried_once_and_nothing_is_fetched(whole):
    from plotly.offline import get_plotlyjs

    assert whole.count(get_plotlyjs()) == 1
    own = without_library(whole)
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", own)
    assert "http" not in re.sub(r"http-equiv", "", own)
    assert "connect-src 'none'" in own and "default-src 'none'" in own


def test_the_same_inputs_give_the_same_bytes(whole):
    assert page(sample_report.inputs()) == whole


def test_the_verdict_and_its_reasons_come_first_and_lineage_last(whole):
    failed = page(sample_report.inputs(0.5))
    for text, word in ((whole, "PASS"), (failed, "FAIL")):
        body = text[text.index("<body>") :]
        assert (
            body.index(f"<strong>{word}</strong>") < body.index('id="section-0"') < body.index('id="lineage"')
        )
    own = without_library(failed)
    assert own.count('class="word fail"') == 4
    assert own.count('class="word none"') == 2
    banner = own[own.index('class="banner fail"') : own.index("</section>")]
    assert "3 (positive mean out of sample): mean PnL is +" in banner
    assert "Not evaluated in this version: 4 (reality check over all cells tried)" in banner
    assert "1a2b3c4d5e6f" in own[own.index('id="lineage"') :]


def test_without_a_verdict_the_page_says_so():
    text = page(small())
    assert "No verdict yet" in text
    assert "Plotly" not in text, "a page without figures does not carry the library"


def test_a_verdict_that_does_not_say_passed_is_a_fail():
    for odd in ({}, {"passed": None}, {"passed": "yes"}, {"passed": 1}):
        assert "<strong>FAIL</strong>" in page(small(verdict=odd))


def test_hostile_text_stays_text_wherever_it_stands():
    figure = go.Figure(go.Bar(x=[HOSTILE], y=[1.0], name=HOSTILE), layout={"title": {"text": HOSTILE}})
    verdict = sample_report.verdict(4.0)
    verdict["warnings"] = [HOSTILE]
    verdict["criteria"][0] |= {"title": HOSTILE, "sentence": HOSTILE}
    verdict["criteria"][1] |= {"status": HOSTILE}
    verdict["context"] = {HOSTILE: HOSTILE}
    text = page(
        ReportInputs(
            title=HOSTILE,
            instrument=HOSTILE,
            verdict=verdict,
            sections=[
                Section(
                    title=HOSTILE,
                    text=HOSTILE,
                    figures=[figure],
                    tables=[(HOSTILE, pl.DataFrame({HOSTILE: [HOSTILE]}))],
                )
            ],
            lineage={HOSTILE: HOSTILE},
        )
    )
    own = without_library(text)
    assert own.count("<script") == own.count("</script") == 3, "figure data, library, drawing"
    assert "<img" not in own
    assert "&lt;/script&gt;" in own
    data = re.search(r'<script type="application/json" data-target="plot-0">(.*?)</script>', own).group(1)
    assert json.loads(data)["data"][0]["x"] == [HOSTILE], "the figure itself is unchanged"


def test_figures_survive_the_journey(whole):
    sources = re.findall(r'<script type="application/json" data-target="(plot-\d+)">(.*?)</script>', whole)
    expected = [f for s in sample_report.sections() for f in s.figures]
    assert len(sources) == len(expected) == 9
    for (name, text), figure in zip(sources, expected, strict=True):
        assert json.loads(text) == json.loads(figure.to_json())
        assert f'id="{name}"' in whole


def test_long_tables_are_cut_with_a_note_and_numbers_are_readable():
    table = pl.DataFrame(
        {"n": range(MAX_ROWS + 7), "x": [1 / 3] * (MAX_ROWS + 7), "gap": [None] * (MAX_ROWS + 7)},
        schema_overrides={"gap": pl.Float64},
    )
    odd = pl.DataFrame({"x": [float("nan"), float("inf"), 123456.789, 0.0], "ok": [True, False, None, True]})
    text = page(small(sections=[Section(title="s", tables=[("long", table), ("odd", odd)])]))
    assert text.count('<td class="number">0.3333</td>') == MAX_ROWS
    assert f"First {MAX_ROWS} of {MAX_ROWS + 7} rows." in text
    assert "nan" not in text and "inf<" not in text
    assert '<td class="number">1.235e+05</td>' in text
    assert text.count('<td class="short">yes</td>') == 2
    assert page(small(sections=[Section(title="s", tables=[("none", odd.clear())])])).count("<tr>") == 1


def test_an_old_page_is_replaced_in_one_step(tmp_path):
    out = tmp_path / "report.html"
    out.write_text("old")
    reader = out.open()
    render_report(small(), out)
    assert reader.read() == "old", "a reader that had it open keeps the old page"
    assert out.read_text().startswith("<!doctype html>")


# Single figures


def test_grid_figure_places_each_cell():
    cells = sample_report.cells().sample(fraction=1.0, shuffle=True, seed=1)
    figure = figures.grid_figure(cells)
    heat = figure.data[0]
    at = {(row["cost"], row["threshold"]): row["mean_pnl_ticks"] for row in cells.iter_rows(named=True)}
    for i, tau in enumerate(heat.y):
        for j, cost in enumerate(heat.x):
            assert heat.z[i][j] == at[float(cost), float(tau)]
    assert heat.zmin == -heat.zmax == -9.0
    assert figure.layout.title.text == "Mean PnL per episode, ticks, in-sample, overlapping episodes"
    bare = figures.grid_figure(cells.select("cost", "threshold", "mean_pnl_ticks"))
    assert bare.layout.title.text == "Mean PnL per episode, ticks"
    missing = figures.grid_figure(cells.head(29))
    assert sum(v != v for line in missing.data[0].z for v in line) == 1, "an absent cell is a hole"


def test_equity_figure_cumulates_and_shows_drawdown():
    series = sample_report.oos(4.0)
    figure = figures.equity_figure(series)
    lines = {trace.name: trace for trace in figure.data}
    assert list(lines["chosen cell"].y) == pytest.approx(np.cumsum(series.chosen.pnl_ticks))
    fall = np.asarray(lines["drawdown of the chosen cell"].y)
    assert fall.max() == 0.0 and fall.min() < 0.0
    assert lines["chosen cell"].x[0] == "2024-03-01T00:00:00"
    assert "next higher cost" in lines
    shorter = figures.equity_figure(replace(series, next_cost=None))
    assert "next higher cost" not in {t.name for t in shorter.data}
    rows = replace(series, chosen=replace(series.chosen, time_ns=np.arange(60)))
    assert figures.equity_figure(rows).data[0].x[:3] == (0, 1, 2)


def test_auc_figure_leaves_out_what_is_undefined():
    scores = sample_report.scores()
    scores[2] = replace(scores[2], auc=None, auc_low=None, auc_high=None)
    scores[3] = replace(scores[3], auc_low=None)
    points = figures.auc_figure(scores).data[0]
    assert list(points.x) == ["30", "100", "1000", "6000"]
    assert points.error_y.arrayminus[2] == 0.0
    assert points.error_y.array[0] == pytest.approx(0.02)


def test_fold_figure_states_mean_and_deviation():
    folds = pl.DataFrame({"fold": [0, 1], "mean_pnl_ticks": [1.0, 3.0]})
    assert "+2 ± 1.4 over 2 folds" in figures.fold_figure(folds).layout.title.text
    assert "±" not in figures.fold_figure(folds.head(1)).layout.title.text


def test_empty_inputs_give_empty_figures():
    assert len(figures.auc_figure([]).data[0].x) == 0
    assert figures.learning_curve_figure([]).data == ()
    assert len(figures.feature_gate_figure({}).data[0].x) == 0
    empty = pl.DataFrame(
        {"expected_fills": [], "observed_fills": []},
        schema={"expected_fills": pl.Float64, "observed_fills": pl.Float64},
    )
    assert len(figures.fill_calibration_figure(empty).data[0].x) == 0


def test_learning_curves_keep_the_steps_of_sparse_metrics():
    figure = figures.learning_curve_figure([{"loss": 1.0}, {"loss": 0.5, "auc": 0.6}])
    lines = {trace.name: trace for trace in figure.data}
    assert list(lines["loss"].x) == [0, 1]
    assert list(lines["auc"].x) == [1]


def test_gates_are_ordered_and_text_is_plain():
    figure = figures.feature_gate_figure({"a": 0.1, "<b>": 0.7, "c": 0.2})
    assert list(figure.data[0].y) == ["a", "c", "&lt;b&gt;"]
    assert plain("<a href='x'>&") == "&lt;a href='x'&gt;&amp;"


def test_figures_round_trip_through_json():
    for section in sample_report.sections():
        for figure in section.figures:
            again = go.Figure(json.loads(figure.to_json()))
            assert again.layout.title.text == figure.layout.title.text


@pytest.mark.slow
def test_a_browser_draws_every_figure_without_errors(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium on this machine")
    out = render_report(sample_report.inputs(), tmp_path / "report.html")
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=15000",
            "--enable-logging=stderr",
            "--dump-dom",
            out.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    drawn = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert drawn.count('class="plot js-plotly-plot"') == 9
    assert "Content Security Policy" not in done.stderr
    assert "Uncaught" not in done.stderr
