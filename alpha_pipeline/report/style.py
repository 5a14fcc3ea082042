"""One look for every figure: colours that all readers can tell apart, system fonts, room for a phone."""

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#6B7280",
)
"""Okabe and Ito's palette (2008)."""

COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_INK, _GRID = "#1F2933", "#E5E7EB"


def styled(figure: "go.Figure", title: str, *, x: str = "", y: str = "", height: int = 360) -> "go.Figure":
    """Set title, axis names and the common look; returns the same figure.

    Args:
        figure: with its traces.
        title: what is shown, with unit and sample.
        x: name of the horizontal axis.
        y: name of the vertical axis.
        height: in pixels; the width follows the page.
    """
    figure.update_layout(
        title={"text": plain(title), "font": {"size": 15}},
        font={"family": FONT, "size": 12, "color": _INK},
        colorway=COLOURS,
        paper_bgcolor="white",
        plot_bgcolor="white",
        height=height,
        margin={"l": 56, "r": 16, "t": 48, "b": 48},
        legend={
            "orientation": "h",
            "yref": "container",
            "yanchor": "bottom",
            "y": 0,
            "xanchor": "left",
            "x": 0,
        },
        hovermode="closest",
    )
    axis = {"gridcolor": _GRID, "zerolinecolor": "#9CA3AF", "linecolor": "#9CA3AF", "automargin": True}
    figure.update_xaxes(**axis, title_text=plain(x) or None)
    figure.update_yaxes(**axis, title_text=plain(y) or None)
    return figure


def plain(text: str) -> str:
    """Text for a figure, which would otherwise read tags in it."""
    return html.escape(str(text), quote=False)
