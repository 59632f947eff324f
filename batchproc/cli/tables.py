"""Laying out a table of plain text for a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

_GAP = "  "
EMPTY = "-"
"""Stands in a cell without a value. A column of nothing else is the first to go."""
# Long texts may be cut down to this; ids, states and codes never are, for they are to be copied.
_LEAST = 11
_FLEXIBLE = frozenset(
    {"title", "tags", "path", "root", "marker", "detail", "error_type", "settings", "host", "node_id", "paused_reason"}
    | {"command", "scope", "handler"}
)
# These say most at their end.
_CUT_AT_START = frozenset({"path", "root", "handler"})
# What goes next where even that is too wide; `show` has everything.
_DISPENSABLE = (
    "tags",
    "settings",
    "started_at",
    "declared_limit",
    "attempts",
    "pages_failed",
    "paused_at",
    "host",
    "detail",
    "lane",
    "pages",
    "run_at",
    "created_at",
    "attempt",
    "error_type",
    "conf",
    "documents",
    "title",
)


@dataclass(slots=True)
class _Column:
    name: str
    cells: list[str]
    right: bool
    width: int

    def line(self, text: str) -> str:
        if cell_len(text) > self.width:
            text = _cut(text, self.width, at_start=self.name in _CUT_AT_START)
        pad = " " * (self.width - cell_len(text))
        return pad + text if self.right else text + pad


def laid_out(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int | None
) -> list[str]:
    """The table's lines, its header first.

    Args:
        rows: cells without line breaks.
        right: which columns are numbers, set to the right.
        width: terminal cells a line may take, None for no limit. A table that cannot be made narrow enough stays
            wider, rather than that an id or code is cut.
    """
    columns = _columns(names, rows, right, width)
    lines = [_GAP.join(column.line(column.name) for column in columns)]
    lines += [_GAP.join(column.line(column.cells[i]) for column in columns) for i in range(len(rows))]
    return [line.rstrip() for line in lines]


def left_out(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The columns that ``laid_out`` leaves out for want of width although something stands in them."""
    kept = {column.name for column in _columns(names, rows, [False] * len(names), width)}
    return [name for i, name in enumerate(names) if name not in kept and any(row[i] != EMPTY for row in rows)]


def _columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int | None
) -> list[_Column]:
    columns = [
        _Column(
            name, [row[i] for row in rows], right[i], max(cell_len(text) for text in (name, *(row[i] for row in rows)))
        )
        for i, name in enumerate(names)
    ]
    return columns if width is None else _fitted(columns, width)


def _fitted(columns: list[_Column], width: int) -> list[_Column]:
    empty = [column.name for column in columns if column.cells and set(column.cells) == {EMPTY}]
    for name in ("", *empty, *_DISPENSABLE):
        columns = [column for column in columns if column.name != name]
        excess = sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1) - width
        flexible = [column for column in columns if column.name in _FLEXIBLE]
        if excess <= sum(max(0, column.width - _LEAST) for column in flexible):
            break
    # The widest gives first, so that short texts stay whole.
    while excess > 0 and any(column.width > _LEAST for column in flexible):
        widest = max(flexible, key=lambda column: column.width)
        widest.width -= 1
        excess -= 1
    return columns


def _cut(text: str, width: int, *, at_start: bool) -> str:
    if not at_start:
        return set_cell_size(text, width - 1) + "…"
    while cell_len(text) > width - 1:
        text = text[1:]
    return "…" + text
