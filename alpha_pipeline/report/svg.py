"""Small drawings that need no script: points, lines and bars over two axes, as SVG inside a page."""

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from alpha_core.errors import InputError
from alpha_pipeline.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

WIDTH, HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 46
_INK, _GRID = "#1F2933", "#E5E7EB"
_BAR_SHARE = 0.6
_LEGEND_STEP, _LETTER = 28, 6.6

Look = Literal["bars", "points", "line", "reference", "bound"]
_DATA, _REFERENCES = (BLUE, GREEN, SKY), (ORANGE, RED, PURPLE)
_DASHES = {"reference": ' stroke-dasharray="7 4"', "bound": ' stroke-dasharray="2 3"'}


@dataclass(frozen=True, kw_only=True)
class Series:
    """Values of one kind.

    Attributes:
        name: what they are, shown in the legend unless empty.
        x: places, as many as `y`.
        y: heights.
        look: bars from zero, points, points joined by a line; or, to compare with, a dashed line or a dotted grey
            one, both without points.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One drawing.

    Attributes:
        title: what is shown.
        x: name of the horizontal axis, with unit.
        y: name of the vertical axis, with unit.
        series: drawn in order, the last on top; places of bars are whole numbers.
        log_x: whether the horizontal axis is logarithmic; all places must then be positive.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Where values of one axis lie: `low` at pixel `start`, `high` at pixel `stop`."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        share = (self._place(value) - self._place(self.low)) / (
            self._place(self.high) - self._place(self.low)
        )
        return round(self.start + share * (self.stop - self.start), 2)

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else even_ticks(self.low, self.high)

    def _place(self, value: float) -> float:
        return math.log(value) if self.log else value


def draw(plot: Plot) -> str:
    """The drawing as an SVG element; every mark tells its values when one points at it, and all text is escaped.

    Raises:
        InputError: the plot has no point, a value is not finite, or a place on a logarithmic axis is not positive.
    """
    _check(plot)
    across, up = _axes(plot)
    colours = _colours(plot.series)
    marks = [
        part
        for series, colour in zip(plot.series, colours, strict=True)
        for part in _marks(series, colour, across, up)
    ]
    return "\n".join(
        [
            f'<svg class="drawing" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(plot.title)}" '
            f'font-size="12" fill="{_INK}">',
            *_frame(plot, across, up),
            *marks,
            *_legend(plot.series, colours),
            "</svg>",
        ]
    )


def even_ticks(low: float, high: float) -> list[float]:
    """About six round numbers in [low, high], a step of 1, 2 or 5 times a power of ten apart."""
    raw = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in [low, high]."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = (factor * 10.0**decade for decade in decades for factor in (1, 2, 5))
    return [mark for mark in marks if low * (1 - 1e-9) <= mark <= high * (1 + 1e-9)]


def _check(plot: Plot) -> None:
    for series in plot.series:
        if len(series.x) != len(series.y) or not len(series.x):
            raise InputError(
                f"plot {plot.title!r}: {series.name!r} had {len(series.x)} places and {len(series.y)} heights, must "
                "have equally many and at least one"
            )
        bad = [v for v in (*series.x, *series.y) if not math.isfinite(v)]
        bad += [v for v in series.x if plot.log_x and v <= 0]
        if bad:
            raise InputError(
                f"plot {plot.title!r}: {series.name!r} held {bad[0]}, must be finite and, on a logarithmic axis, "
                "positive"
            )


def _axes(plot: Plot) -> tuple[_Axis, _Axis]:
    """Room for all values; heights always show zero, and bars get half a step on either side."""
    xs = [v for series in plot.series for v in series.x]
    ys = [0.0, *(v for series in plot.series for v in series.y)]
    bars = any(series.look == "bars" for series in plot.series)
    low, high = _widened(min(xs), max(xs), 0.5 if bars else 0.0, plot.log_x)
    bottom, top = min(ys), max(ys)
    room = 0.06 * (top - bottom) or 1.0
    bottom, top = bottom - room * (bottom < 0), top + room
    across = _Axis(low=low, high=high, start=_LEFT, stop=WIDTH - _RIGHT, log=plot.log_x)
    return across, _Axis(low=bottom, high=top, start=HEIGHT - _BOTTOM, stop=_TOP)


def _widened(low: float, high: float, margin: float, log: bool) -> tuple[float, float]:
    if log:
        return low / 1.08, high * 1.08
    margin = margin or 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def _frame(plot: Plot, across: _Axis, up: _Axis) -> Iterator[str]:
    for tick in up.ticks():
        y = up.at(tick)
        colour = "#9CA3AF" if tick == 0 else _GRID
        yield f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="{colour}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.2f}" text-anchor="end">{tick:.4g}</text>'
    bars = any(series.look == "bars" for series in plot.series)
    for tick in across.ticks():
        if bars and tick != round(tick):
            continue
        x = across.at(tick)
        yield f'<line x1="{x}" x2="{x}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 4}" stroke="#9CA3AF"/>'
        yield f'<text x="{x}" y="{HEIGHT - _BOTTOM + 17}" text-anchor="middle">{tick:.4g}</text>'
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{_text(plot.x)}</text>'
    centre = (_TOP + HEIGHT - _BOTTOM) / 2
    yield (
        f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{_text(plot.y)}</text>'
    )


def _marks(series: Series, colour: str, across: _Axis, up: _Axis) -> Iterator[str]:
    points = list(zip(series.x, series.y, strict=True))
    if series.look == "bars":
        yield from (_bar(x, y, colour, across, up) for x, y in points)
        return
    path = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in points)
    if series.look in _DASHES:
        yield f'<polyline points="{path}" fill="none" stroke="{colour}"{_DASHES[series.look]}/>'
        return
    if series.look == "line":
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for x, y in points:
        yield f'<circle cx="{across.at(x)}" cy="{up.at(y)}" r="3.5" fill="{colour}">{_hint(x, y)}</circle>'


def _bar(x: float, y: float, colour: str, across: _Axis, up: _Axis) -> str:
    left, right = across.at(x - _BAR_SHARE / 2), across.at(x + _BAR_SHARE / 2)
    top, bottom = sorted((up.at(0.0), up.at(y)))
    size = f'width="{right - left:.2f}" height="{bottom - top:.2f}"'
    return f'<rect x="{left}" y="{top}" {size} fill="{colour}">{_hint(x, y)}</rect>'


def _hint(x: float, y: float) -> str:
    return f"<title>{x:.6g}: {y:.6g}</title>"


def _legend(series: Sequence[Series], colours: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for one, colour in zip(series, colours, strict=True):
        if one.name:
            dash = _DASHES.get(one.look, "")
            yield f'<path d="M{x:.1f} 14h20" stroke="{colour}" stroke-width="2"{dash}/>'
            yield f'<text x="{x + 26:.1f}" y="18">{_text(one.name)}</text>'
            x += 26 + _LEGEND_STEP + _LETTER * len(one.name)


def _colours(series: Sequence[Series]) -> list[str]:
    """Data and what they are compared with have colours of their own, each in order."""
    data, references = itertools.cycle(_DATA), itertools.cycle(_REFERENCES)
    return [
        GREY if one.look == "bound" else next(references if one.look == "reference" else data)
        for one in series
    ]


def _text(value: str) -> str:
    return html.escape(value, quote=True)
