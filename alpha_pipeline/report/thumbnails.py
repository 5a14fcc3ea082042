"""Small pictures of Plotly figures for places that show images and run no scripts, such as the Dagster page."""

import base64
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

_INCHES = (6.0, 2.8)
_DPI = 80


def data_uri(figure: "go.Figure") -> str:
    """The figure's lines, bars, areas and heat maps as a PNG inside a `data:` address.

    Args:
        figure: a Plotly figure; traces of other kinds are left out, and the title says how many.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    canvas, axes = FigureCanvasAgg(picture), picture.subplots()
    traces = figure.to_plotly_json()["data"]
    left_out = sum(not _draw(axes, trace) for trace in traces)
    layout = figure.to_plotly_json()["layout"]
    _label(axes, layout, left_out)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _draw(axes: Any, trace: dict[str, Any]) -> bool:
    kind, name = trace.get("type", "scatter"), trace.get("name")
    if kind == "heatmap":
        axes.imshow(trace["z"], aspect="auto", origin="lower", cmap="cividis")
        axes.set_xticks(range(len(trace["x"])), [str(v) for v in trace["x"]])
        axes.set_yticks(range(len(trace["y"])), [str(v) for v in trace["y"]])
        return True
    if kind == "bar":
        across = trace.get("orientation") == "h"
        (axes.barh if across else axes.bar)(
            *((trace["y"], trace["x"]) if across else (trace["x"], trace["y"])), label=name
        )
        return True
    if kind in ("scatter", "scattergl"):
        marker = "." if "markers" in trace.get("mode", "lines") else None
        line = "-" if "lines" in trace.get("mode", "lines") else ""
        axes.plot(trace["x"], trace["y"], label=name, marker=marker, linestyle=line, linewidth=1)
        return True
    return False


def _label(axes: Any, layout: dict[str, Any], left_out: int) -> None:
    title = _text(layout.get("title"))
    axes.set_title(f"{title} ({left_out} traces not drawn)" if left_out else title, fontsize=9)
    axes.set_xlabel(_text(layout.get("xaxis", {}).get("title")), fontsize=8)
    axes.set_ylabel(_text(layout.get("yaxis", {}).get("title")), fontsize=8)
    axes.tick_params(labelsize=7)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7)


def _text(title: Any) -> str:
    return (title.get("text") or "") if isinstance(title, dict) else (title or "")
