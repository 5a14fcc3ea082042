"""Drawings without script: every point is there, at its place, and text cannot break out."""

import re
import xml.etree.ElementTree as ET

import pytest

from alpha_core.errors import InputError
from alpha_pipeline.report.svg import Plot, Series, draw, even_ticks, log_ticks

TAG = re.compile(r"<(/?[a-z]+)")


def plot(*series: Series, **rest) -> Plot:
    return Plot(title=rest.pop("title", "a plot"), x="x", y="y", series=series, **rest)


def test_points_lie_where_their_values_do():
    line = Series(name="line", x=[1.0, 10.0, 100.0], y=[0.0, 5.0, 10.0], look="line")
    svg = ET.fromstring(draw(plot(line, log_x=True)))
    circles = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in svg.iter("circle")]
    (x0, y0), (x1, y1), (x2, y2) = circles
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.02)
    (path,) = svg.iter("polyline")
    assert path.get("points") == " ".join(f"{x},{y}" for x, y in circles)
    assert [c.findtext("title") for c in svg.iter("circle")] == ["1: 0", "10: 5", "100: 10"]


def test_bars_stand_on_zero_in_proportion():
    bars = Series(name="bars", x=[1.0, 2.0, 3.0], y=[4.0, -2.0, 1.0], look="bars")
    found = list(ET.fromstring(draw(plot(bars))).iter("rect"))
    heights = [float(r.get("height", "")) for r in found]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.05)
    assert heights[0] == pytest.approx(4 * heights[2], abs=0.05)
    zero = float(found[0].get("y", "")) + heights[0]
    assert zero == pytest.approx(float(found[1].get("y", "")), abs=0.02)


def test_references_have_lines_but_no_points():
    data = Series(name="data", x=[1.0, 2.0], y=[1.0, 2.0], look="points")
    known = Series(name="known", x=[1.0, 2.0], y=[1.5, 1.5], look="reference")
    bound = Series(name="", x=[1.0, 2.0], y=[0.5, 0.5], look="bound")
    svg = ET.fromstring(draw(plot(bound, known, data)))
    assert (len(list(svg.iter("circle"))), len(list(svg.iter("polyline")))) == (2, 2)
    words = [text.text for text in svg.iter("text")]
    assert {"known", "data", "x", "y"} <= set(words)
    assert "" not in words


def test_text_is_escaped():
    drawn = draw(plot(Series(name="<b>&\"'", x=[1.0], y=[1.0], look="points"), title='"><script>'))
    assert "<b>" not in drawn
    assert "<script>" not in drawn
    assert ET.fromstring(drawn).get("aria-label") == '"><script>'


def test_a_single_point_and_all_zero_heights_can_be_drawn():
    for log_x in (False, True):
        svg = ET.fromstring(draw(plot(Series(name="p", x=[3.0], y=[0.0], look="points"), log_x=log_x)))
        assert len(list(svg.iter("circle"))) == 1


@pytest.mark.parametrize(
    ("x", "y", "log_x", "told"),
    [
        ([1.0], [float("nan")], False, "held nan"),
        ([0.0], [1.0], True, "held 0.0"),
        ([1.0, 2.0], [1.0], False, "2 places and 1 heights"),
        ([], [], False, "at least one"),
    ],
)
def test_what_cannot_be_drawn_is_refused(x, y, log_x, told):
    with pytest.raises(InputError, match=told):
        draw(plot(Series(name="p", x=x, y=y, look="points"), log_x=log_x))


def test_ticks_are_round_and_inside():
    assert even_ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert even_ticks(-4.1, 7.3) == pytest.approx([-4.0, -2.0, 0.0, 2.0, 4.0, 6.0])
    assert log_ticks(0.9, 1080.0) == pytest.approx([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
