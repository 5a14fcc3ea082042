"""A table whose cells are coloured by how bad they are: readable without scripts, in print and by the colour-blind."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Look = Literal["pass", "warn", "fail", "none"]
MARKS: dict[Look, str] = {"pass": "", "warn": "! ", "fail": "✗ ", "none": ""}


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """One figure.

    Attributes:
        text: the figure.
        look: how bad it is.
        hint: a sentence shown when one points at it.
    """

    text: str
    look: Look
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class HeatRow:
    """One line.

    Attributes:
        label: what it is about.
        anchor: name of the place on the page where more is told, None where nothing is.
        note: a word behind the label.
        look: how bad the line is as a whole.
        hint: a sentence shown when one points at the label.
        cells: as many as the table has columns.
    """

    label: str
    anchor: str | None
    note: str
    look: Look
    hint: str
    cells: Sequence[HeatCell]


@dataclass(frozen=True, kw_only=True)
class HeatTable:
    """Lines against columns.

    Attributes:
        corner: heading of the labels.
        columns: headings, set upright.
        bounds: what each column is held against, shown below the headings.
        rows: the lines.
    """

    corner: str
    columns: Sequence[str]
    bounds: Sequence[str]
    rows: Sequence[HeatRow]


def render(table: HeatTable) -> str:
    """The table as HTML, all text escaped."""
    heads = "".join(f'<th><span class="upright">{_text(name)}</span></th>' for name in table.columns)
    bounds = "".join(f'<th class="number">{_text(bound)}</th>' for bound in table.bounds)
    return (
        '<div class="scroll tall"><table class="heat"><thead>'
        f'<tr><th class="first">{_text(table.corner)}</th>{heads}</tr>'
        f'<tr><th class="first">bound</th>{bounds}</tr></thead>'
        f"<tbody>{''.join(_rows(table.rows))}</tbody></table></div>"
    )


def _rows(rows: Sequence[HeatRow]) -> Iterator[str]:
    for row in rows:
        label = _text(row.label)
        if row.anchor is not None:
            label = f'<a href="#{_text(row.anchor)}">{label}</a>'
        cells = "".join(map(_cell, row.cells))
        note = f" {_text(row.note)}" if row.note else ""
        head = f'<th class="first {row.look}"{_hint(row.hint)}>{MARKS[row.look]}{label}{note}</th>'
        yield f"<tr>{head}{cells}</tr>"


def _cell(cell: HeatCell) -> str:
    return f'<td class="{cell.look}"{_hint(cell.hint)}>{MARKS[cell.look]}{_text(cell.text)}</td>'


def _hint(text: str) -> str:
    return f' title="{_text(text)}"' if text else ""


def _text(value: str) -> str:
    return html.escape(value, quote=True)
