"""Small pictures of Plotly figures for places that show images but run no scripts: the Dagster page."""

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
    stack: dict[Any, float] | None = {} if figure.layout.barmode == "stack" else None
    left_out = sum(not _draw(axes, trace, stack) for trace in figure.data)
    _label(axes, figure.layout, left_out)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _draw(axes: Any, trace: Any, stack: dict[Any, float] | None) -> bool:
    """Draw one trace, if that is possible; `stack` holds the heights of the bars that were drawn before."""
    if trace.type == "heatmap":
        axes.imshow(trace.z, aspect="auto", origin="lower", cmap="cividis")
        axes.set_xticks(range(len(trace.x)), [str(v) for v in trace.x])
        axes.set_yticks(range(len(trace.y)), [str(v) for v in trace.y])
        return True
    if trace.type == "bar":
        _draw_bars(axes, trace, stack)
        return True
    if trace.type in ("scatter", "scattergl"):
        mode = trace.mode or "lines"
        marker, line = "." if "markers" in mode else None, "-" if "lines" in mode else ""
        axes.plot(trace.x, trace.y, label=trace.name, marker=marker, linestyle=line, linewidth=1)
        return True
    return False


def _draw_bars(axes: Any, trace: Any, stack: dict[Any, float] | None) -> None:
    if trace.orientation == "h":
        axes.barh(trace.y, trace.x, label=trace.name)
        return
    below = [0.0 if stack is None else stack.get(x, 0.0) for x in trace.x]
    axes.bar(trace.x, trace.y, bottom=below, label=trace.name)
    if stack is not None:
        stack.update((x, low + y) for x, low, y in zip(trace.x, below, trace.y, strict=True))


def _label(axes: Any, layout: Any, left_out: int) -> None:
    title = layout.title.text or ""
    axes.set_title(f"{title} ({left_out} traces not drawn)" if left_out else title, fontsize=9)
    axes.set_xlabel(layout.xaxis.title.text or "", fontsize=8)
    axes.set_ylabel(layout.yaxis.title.text or "", fontsize=8)
    axes.xaxis.set_major_locator(_few_ticks(axes))
    if layout.xaxis.range is not None:
        axes.set_xlim(layout.xaxis.range)
    axes.tick_params(labelsize=7)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7)


def _few_ticks(axes: Any) -> Any:
    """Category axes would label every entry."""
    from matplotlib.category import StrCategoryLocator
    from matplotlib.ticker import MaxNLocator

    locator = axes.xaxis.get_major_locator()
    return MaxNLocator(8, integer=True) if isinstance(locator, StrCategoryLocator) else locator
