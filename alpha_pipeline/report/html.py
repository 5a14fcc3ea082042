"""The report as one self-contained HTML file. All text is escaped; the page can be opened from a mail."""

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alpha_core.durable import write_atomic
from alpha_pipeline.report.heat import HeatTable
from alpha_pipeline.report.heat import render as render_heat
from alpha_pipeline.report.page import POLICY, SCRIPT, STYLE
from alpha_pipeline.report.svg import Plot, draw

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

MAX_ROWS = 500
"""Rows of a table that are shown; the rest is in the run's artifacts."""

_SHORT = 24
"""Characters up to which a table's entry is kept on one line."""

_FOLDED_ABOVE = 12
"""Rows above which a table starts folded."""


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What is told of one thing on demand, folded.

    Attributes:
        anchor: name of its place on the page.
        title: what is seen of it while folded.
        text: sentences, one a line.
        tables: (caption, table) pairs.
    """

    anchor: str
    title: str
    text: str = ""
    tables: "Sequence[tuple[str, pl.DataFrame]]" = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of the page, shown in the order of its attributes.

    Attributes:
        title: heading.
        text: a sentence or two on what is shown.
        heat: a table of figures coloured by how bad they are.
        plots: still drawings, which need no script.
        figures: Plotly figures; their titles become headings.
        tables: (caption, table) pairs.
        details: folded parts.
    """

    title: str
    text: str = ""
    heat: HeatTable | None = None
    plots: Sequence[Plot] = ()
    figures: "Sequence[go.Figure]" = ()
    tables: "Sequence[tuple[str, pl.DataFrame]]" = ()
    details: Sequence[Detail] = ()


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """What the page shows.

    Attributes:
        title: heading of the page.
        instrument: what is traded.
        verdict: the dictionary of `evaluation.verdict.read_verdict`, None before the gate was run.
        of_verdict: whether the page is about a verdict at all.
        sections: parts in order.
        lineage: digests, versions, seed, device; shown at the end.
    """

    title: str
    instrument: str
    verdict: Mapping[str, Any] | None
    of_verdict: bool = True
    sections: Sequence[Section] = ()
    lineage: Mapping[str, str] = field(default_factory=dict)


def render_report(inputs: ReportInputs, out: Path) -> Path:
    """Write the page; a reader sees the old file or the new one.

    Args:
        inputs: what to show.
        out: the HTML file, its folder is created.

    Returns:
        `out`.
    """
    write_atomic(out, page(inputs).encode())
    return out


def page(inputs: ReportInputs) -> str:
    """The whole page as text; the same inputs give the same bytes."""
    figures = _Figures()
    body = [
        f"<h1>{_text(inputs.title)}</h1>",
        f'<p class="soft">Instrument {_text(inputs.instrument)}</p>',
        *(_verdict(inputs.verdict) if inputs.of_verdict else ()),
        _navigation(inputs.sections),
        *(part for i, section in enumerate(inputs.sections) for part in _section(i, section, figures)),
        *_lineage(inputs.lineage),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(inputs.title)}</title><style>{STYLE}</style></head><body><main>",
            *body,
            "</main>",
            *figures.scripts(),
            "</body></html>\n",
        ]
    )


class _Figures:
    """Figures met so far; their data go to the end of the page so that the text is read first."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    def place(self, figure: "go.Figure") -> str:
        """A heading and an empty box for one figure."""
        name = f"plot-{len(self.sources)}"
        raw = json.loads(str(figure.to_json()))
        title = raw.get("layout", {}).get("title", {}).get("text", "")
        height = raw.get("layout", {}).get("height", 360)
        self.sources.append(
            f'<script type="application/json" data-target="{name}">{_inert(json.dumps(raw))}</script>'
        )
        heading = f"<h3>{_text(html.unescape(title))}</h3>" if title else ""
        box = f'<div class="plot" id="{name}" style="min-height:{int(height)}px"></div>'
        return f"<figure>{heading}{box}</figure>"

    def scripts(self) -> Iterator[str]:
        """The figures' data, the library once, and what draws them."""
        if not self.sources:
            return
        from plotly.offline import get_plotlyjs

        yield "<noscript><p>The figures of this page need JavaScript; tables and text do not.</p></noscript>"
        yield from self.sources
        yield f"<script>{get_plotlyjs()}</script>"
        yield f"<script>{SCRIPT}</script>"


def _verdict(verdict: Mapping[str, Any] | None) -> Iterator[str]:
    if verdict is None:
        yield '<p class="soft">No verdict yet: the out-of-sample gate was not run.</p>'
        return
    word = "PASS" if verdict.get("passed") is True else "FAIL"
    yield f'<section class="banner {word.lower()}"><strong>{word}</strong>{_reasons(verdict)}</section>'
    yield from _cell(verdict)
    for warning in verdict.get("warnings", ()):
        yield f"<p>⚠ {_text(warning)}</p>"
    yield _criteria(verdict.get("criteria", ()))
    context = verdict.get("context", {})
    if context:
        yield _folded("Context: figures that decide nothing", _pairs(context, ""), open_=False)


def _reasons(verdict: Mapping[str, Any]) -> str:
    """The verdict's headline, with the failed criteria as a list."""
    criteria = verdict.get("criteria", ())
    answers = ("pass", "fail", "not evaluated")
    by_status = {answer: [c for c in criteria if c.get("status") == answer] for answer in answers}
    evaluated = len(by_status["pass"]) + len(by_status["fail"])
    said = f"<p>{len(by_status['pass'])} of {evaluated} evaluated criteria hold.</p>"
    if by_status["fail"]:
        items = (f"<li>{_named(c)}: {_text(c.get('sentence', ''))}</li>" for c in by_status["fail"])
        said += f"<ul>{''.join(items)}</ul>"
    if by_status["not evaluated"]:
        left_out = " and ".join(_named(c) for c in by_status["not evaluated"])
        said += f"<p>Not evaluated in this version: {left_out}.</p>"
    return said


def _named(criterion: Mapping[str, Any]) -> str:
    return f"{_text(criterion.get('number', ''))} ({_text(str(criterion.get('title', '')).lower())})"


def _cell(verdict: Mapping[str, Any]) -> Iterator[str]:
    chosen, days = verdict.get("chosen", {}), verdict.get("oos_days", ())
    if chosen.get("threshold") is None:
        return
    span = f"{days[0]} to {days[-1]}, {len(days)} days" if days else "no days"
    yield (
        f'<p class="soft">Tested once: cost {_text(chosen["cost"])} price points per side '
        f"({_text(chosen['cost_ticks'])} ticks), entry threshold {_text(chosen['threshold'])}, chosen "
        f"in sample among {_text(chosen['tried'])} cells. Out of sample: {_text(span)}.</p>"
    )


def _criteria(criteria: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("", "Answer", "Criterion", "Figure", "Bound", "Margin", "Reason")
    )
    lines = "".join(_criterion(c) for c in criteria)
    return (
        f'<div class="scroll"><table class="criteria"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _criterion(line: Mapping[str, Any]) -> str:
    status = str(line.get("status", ""))
    word, look = {"pass": ("✓ pass", "pass"), "fail": ("✗ fail", "fail")}.get(status, (f"– {status}", "none"))
    numbers = "".join(
        f'<td class="number" data-label="{label}">{_number(line.get(name))}</td>'
        for label, name in (("figure", "figure"), ("bound", "threshold"), ("margin", "margin"))
    )
    return (
        f'<tr><td class="which">{_text(line.get("number", ""))}</td>'
        f'<td class="word {look}">{_text(word)}</td>'
        f'<td class="title">{_text(line.get("title", ""))}</td>{numbers}'
        f"<td>{_text(line.get('sentence', ''))}</td></tr>"
    )


def _navigation(sections: Sequence[Section]) -> str:
    links = [f'<a href="#section-{i}">{_text(s.title)}</a>' for i, s in enumerate(sections)]
    return f'<nav>{"".join(links)}<a href="#lineage">Lineage</a></nav>'


def _section(index: int, section: Section, figures: _Figures) -> Iterator[str]:
    yield f'<h2 id="section-{index}">{_text(section.title)}</h2>'
    if section.text:
        yield f"<p>{_text(section.text)}</p>"
    if section.heat is not None:
        yield render_heat(section.heat)
    for plot in section.plots:
        yield f"<figure><h3>{_text(plot.title)}</h3>{draw(plot)}</figure>"
    for figure in section.figures:
        yield figures.place(figure)
    for caption, table in section.tables:
        yield _folded(caption, _table(table), open_=table.height <= _FOLDED_ABOVE)
    yield from map(_detail, section.details)


def _detail(detail: Detail) -> str:
    said = "".join(f"<p>{_text(line)}</p>" for line in detail.text.splitlines())
    tables = "".join(f"<h4>{_text(caption)}</h4>{_table(table)}" for caption, table in detail.tables)
    return (
        f'<details class="detail" id="{_text(detail.anchor)}"><summary>{_text(detail.title)}</summary>'
        f"{said}{tables}</details>"
    )


def _lineage(lineage: Mapping[str, str]) -> Iterator[str]:
    yield '<h2 id="lineage">Lineage</h2>'
    yield "<p>What this page was made from.</p>"
    yield _pairs(lineage, "digest") if lineage else '<p class="soft">Not recorded.</p>'


def _folded(caption: str, body: str, *, open_: bool) -> str:
    return f"<details{' open' if open_ else ''}><summary>{_text(caption)}</summary>{body}</details>"


def _pairs(values: Mapping[str, Any], look: str) -> str:
    lines = "".join(
        f'<tr><td>{_text(name)}</td><td class="{look}">{_number(value)}</td></tr>'
        for name, value in values.items()
    )
    return f'<div class="scroll"><table><tbody>{lines}</tbody></table></div>'


def _table(table: "pl.DataFrame") -> str:
    look = {name: "number" if kind.is_numeric() else "" for name, kind in table.schema.items()}
    head = "".join(f'<th class="{look[name]}">{_text(name)}</th>' for name in table.columns)
    shown = table.head(MAX_ROWS)
    lines = "".join(
        f"<tr>{''.join(_entry(value, look[name]) for name, value in row.items())}</tr>"
        for row in shown.iter_rows(named=True)
    )
    note = f'<p class="soft">First {MAX_ROWS} of {table.height} rows.</p>' if table.height > MAX_ROWS else ""
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>{lines}</tbody>"
    return f'<div class="scroll"><table>{head}{body}</table></div>{note}'


def _entry(value: Any, look: str) -> str:
    shown = _number(value)
    return f'<td class="{look or ("short" if len(shown) <= _SHORT else "")}">{shown}</td>'


def _number(value: Any) -> str:
    """A value for people: four significant digits, a dash for what is undefined."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _text(f"{value:.4g}" if isinstance(value, float) else value)


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _inert(text: str) -> str:
    """JSON inside a script element: nothing in it can close the element or open a comment."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
