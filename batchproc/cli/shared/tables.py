"""Laying out a table of plain text for a width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

_GAP = "  "
EMPTY = "-"
"""Stands in a cell without a value. A column of nothing else is the first to go."""
# Long texts may be cut down to so many cells; ids, states and codes never are, for they are to be copied.
_LEAST = 11
_LEAST_OF = {"title": 16, "path": 16, "command": 16}
# Rather than that titles are left out, or that a line does not fit.
_BARELY = 8
_FLEXIBLE = frozenset(
    {"title", "tags", "path", "root", "marker", "detail", "error_type", "settings", "host", "node_id", "paused_reason"}
    | {"command", "scope", "handler", "paused"}
)
# These say most at their end.
_CUT_AT_START = frozenset({"path", "root", "handler"})
# It is there where a row has one, and nowhere else.
_ONLY_WITH_A_VALUE = frozenset({"code"})
# What goes next where even that is too wide; `show` has everything. A document is known by its title: the path, which
# would take most of the line, is cut and left out before that.
_DISPENSABLE = (
    "path",
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

    @property
    def is_empty(self) -> bool:
        return bool(self.cells) and set(self.cells) == {EMPTY}

    def least(self, *, barely: bool) -> int:
        """The width to which it may be cut."""
        if self.name not in _FLEXIBLE:
            return self.width
        return min(self.width, _BARELY if barely else _LEAST_OF.get(self.name, _LEAST))

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
    columns = [column for column in columns if not (column.is_empty and column.name in _ONLY_WITH_A_VALUE)]
    if _total(column.width for column in columns) <= width:
        return columns
    columns = [column for column in columns if not column.is_empty]
    chosen = _chosen(columns, width, barely=False)
    lost = {column.name for column in columns} - {column.name for column in chosen}
    if barely := "title" in lost or _total(column.least(barely=False) for column in chosen) > width:
        chosen = _chosen(columns, width, barely=True)
    _cut_down(chosen, width, barely=barely)
    return chosen


def _chosen(columns: list[_Column], width: int, *, barely: bool) -> list[_Column]:
    """As many of the columns as there is room for when each is cut as far as it may be."""
    left_out: list[str] = []

    def kept(without: Sequence[str]) -> list[_Column]:
        return [column for column in columns if column.name not in without]

    def fits(without: Sequence[str]) -> bool:
        return _total(column.least(barely=barely) for column in kept(without)) <= width

    for name in _DISPENSABLE:
        if fits(left_out):
            break
        left_out.append(name)
    # What went first may be narrower than what went last.
    for name in reversed(left_out):
        if fits(without := [other for other in left_out if other != name]):
            left_out = without
    return kept(left_out)


def _cut_down(columns: list[_Column], width: int, *, barely: bool) -> None:
    excess = _total(column.width for column in columns) - width
    while excess > 0 and (flexible := [column for column in columns if column.width > column.least(barely=barely)]):
        # A path gives first, then the widest, so that short texts stay whole.
        widest = max(flexible, key=lambda column: (column.name == "path", column.width))
        widest.width -= 1
        excess -= 1


def _total(widths: Iterable[int]) -> int:
    cells = list(widths)
    return sum(cells) + len(_GAP) * (len(cells) - 1)


def _cut(text: str, width: int, *, at_start: bool) -> str:
    if not at_start:
        return set_cell_size(text, width - 1).rstrip() + "…"
    while cell_len(text) > width - 1:
        text = text[1:]
    return "…" + text
