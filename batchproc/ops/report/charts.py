"""The charts of a report. Each is drawn twice, for a wide page and for a phone, so that its text stays legible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from batchproc.core.durations import duration
from batchproc.ops.campaign_result import SAME, STEPS
from batchproc.ops.report.local_time import LocalTime
from batchproc.ops.report.model import Report, TenantWork
from batchproc.ops.report.svg import BAD, FAINT, INK, SERIES, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Inches; at 72 units each, about the pixels that such a chart gets on the page.
_WIDE, _NARROW = 9.4, 4.0
_TENANTS = 15
_CODES = 12
_OTHERS = "others"
_MINUTE = 60.0


@dataclass(frozen=True)
class Chart:
    """A chart for the page. ``about`` is the sentence below its title."""

    title: str
    about: str
    wide: Markup
    narrow: Markup


def charts(report: Report, names: Collection[str] | None = None) -> dict[str, Chart]:
    """The charts that there is something for, by name, in the order of the page; None for ``names`` means all."""
    plans = {
        "throughput": _throughput,
        "slots": _slots,
        "waits": _waits,
        "failures": _failures,
        "confidence": _confidence,
    }
    wanted = plans if names is None else {name: plans[name] for name in names}
    return {name: chart for name, plan in wanted.items() if (chart := plan(report)) is not None}


def _chart(name: str, title: str, about: str, draw: Callable[[Figure, bool], None], height: float) -> Chart:
    wide = drawn(lambda figure: draw(figure, False), f"{name}-wide", f"{title}. {about}", (_WIDE, height))
    narrow = drawn(lambda figure: draw(figure, True), f"{name}-narrow", f"{title}. {about}", (_NARROW, height))
    return Chart(title, about, wide, narrow)


def _throughput(report: Report) -> Chart | None:
    if not report.kinds:
        return None

    def draw(figure: Figure, is_narrow: bool) -> None:
        has_pages = report.pages > 0
        upper, *lower = figure.subplots(1 + has_pages, 1, sharex=True, squeeze=False)[:, 0]
        _stack(upper, report, [stretch.completed for stretch in report.stretches], unit)
        upper.set_ylabel(f"jobs {each}")
        _legend(figure, is_narrow)
        for axes in lower:
            told = [stretch.pages / report.width * unit for stretch in report.stretches]
            axes.bar([*_starts(report)], told, width=_days(report.width), align="edge", color=SERIES[0])
            axes.set_ylabel(f"pages {each}")
        if unit < _MINUTE:
            for axes in figure.axes:
                _whole_numbers(axes.yaxis, 5)
        _time_axis(figure.axes[-1], report, is_narrow)

    # What is counted in shorter stretches than a minute is no number of a minute.
    unit = min(_MINUTE, report.width)
    each = "a minute" if unit == _MINUTE else f"in {duration(unit)}"
    about = f"What was completed, in stretches of {duration(report.width)}, times in {_zone(report)}."
    return _chart("throughput", "Throughput", about, draw, 3.9 if report.pages else 2.4)


def _slots(report: Report) -> Chart | None:
    if not report.busy:
        return None
    slots = report.subject.slots

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        _stack(axes, report, [stretch.busy for stretch in report.stretches], 1)
        if slots:
            axes.axhline(slots, color=INK, linewidth=1, linestyle="--")
            axes.set_ylim(0, slots * 1.15)
        _whole_numbers(axes.yaxis, 6)
        axes.set_ylabel("busy workers")
        _legend(figure, is_narrow)
        _time_axis(axes, report, is_narrow)

    use = report.slot_use
    about = "How many workers had a job, on average over each stretch, by the kind of the job."
    if slots and use is not None:
        about += f" The line shows the {slots} that there were; {use:.0%} of their time was used."
    return _chart("slots", "Use of the workers", about, draw, 2.4)


def _waits(report: Report) -> Chart | None:
    tenants = report.tenants[:_TENANTS]
    if not tenants:
        return None

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        rows = range(len(tenants))
        axes.barh(rows, [tenant.wait_95 for tenant in tenants], height=0.6, color=SERIES[0])
        axes.plot([t.wait_median for t in tenants], rows, "|", color=INK, markersize=14, markeredgewidth=2)
        axes.plot([t.wait_longest for t in tenants], rows, "o", color=BAD, markersize=5)
        axes.set_yticks(rows, [_named(tenant, 14 if is_narrow else 40) for tenant in tenants])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        _duration_axis(axes, max(tenant.wait_longest for tenant in tenants), 3 if is_narrow else 6)

    about = (
        "From when a job was due, at the earliest from the start, until a worker had it."
        " Bar: 19 of 20 jobs; stroke: half of them; dot: the longest."
    )
    if (more := len(report.tenants) - len(tenants)) > 0:
        about += f" The {more} that waited less are in the table alone."
    return _chart("waits", "Waits by tenant", about, draw, 0.8 + 0.3 * len(tenants))


def _failures(report: Report) -> Chart | None:
    codes: dict[str, tuple[int, int]] = {}
    for group in report.failures:
        failed, partial = codes.get(group.failure_code, (0, 0))
        codes[group.failure_code] = (failed + group.jobs * (not group.partial), partial + group.jobs * group.partial)
    if not codes:
        return None
    shown = sorted(codes.items(), key=lambda item: (-sum(item[1]), item[0]))[:_CODES]

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        rows = range(len(shown))
        failed = [counts[0] for _, counts in shown]
        partial = [counts[1] for _, counts in shown]
        if any(failed):  # the legend names what there is
            axes.barh(rows, failed, height=0.6, color=BAD, label="jobs given up on")
        if any(partial):
            axes.barh(rows, partial, left=failed, height=0.6, color=SERIES[1], label="partial documents")
        _totals(axes, map(sum, zip(failed, partial, strict=True)))
        axes.set_yticks(rows, [code for code, _ in shown])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        _whole_numbers(axes.xaxis, 4 if is_narrow else 8)
        _legend(figure, is_narrow)

    return _chart(
        "failures", "Failures by code", "Of all tenants; whose they are is below.", draw, 0.9 + 0.3 * len(shown)
    )


def _confidence(report: Report) -> Chart | None:
    found = report.result.confidences
    if not found.measured:
        return None
    # Up is above.
    names = [*reversed(_changes("up")), "the same", *_changes("down")]
    changes, others = found.changes[::-1], found.changes_of_others[::-1]

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        rows = range(len(names))
        colors = [SERIES[0] if row < SAME else SERIES[1] if row > SAME else SERIES[5] for row in rows]
        axes.barh(rows, changes, height=0.6, color=colors)
        if any(others):
            axes.barh(rows, others, left=changes, height=0.6, color=FAINT, label="read by other means")
            _legend(figure, is_narrow)
        _totals(axes, map(sum, zip(changes, others, strict=True)))
        axes.set_yticks(rows, names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        _whole_numbers(axes.xaxis, 4 if is_narrow else 8)
        axes.set_xlabel("documents")

    about = (
        f"By how many points of 100. Of {found.measured:,} documents that had recognised words before:"
        f" {found.up:,} higher{_mean(found.points_up, found.up)}, {found.down:,} lower"
        f"{_mean(found.points_down, found.down)}, {found.same:,} the same."
    )
    if (other := found.measured - found.comparable) > 0:
        about += f" {other:,} of them were read by another engine or with other data than before: not one scale."
    return _chart("confidence", "Change of confidence", about, draw, 3.6)


def _changes(way: str) -> list[str]:
    """The names of the classes that changed that way, the least first."""
    between = [f"{way} by {low} to {high}" for low, high in pairwise(STEPS)]
    return [f"{way} by less than {STEPS[0]}", *between, f"{way} by {STEPS[-1]} or more"]


def _mean(points: float, documents: int) -> str:
    return f" (by {points / documents:.1f} on average)" if documents else ""


# -- what the charts share


def _colors(report: Report) -> dict[str, str]:
    """A colour for each kind that took most of the time; the last one is for all others."""
    kinds = [kind.kind for kind in report.kinds]
    if len(kinds) <= len(SERIES):
        return dict(zip(kinds, SERIES, strict=False))
    return dict(zip([*kinds[: len(SERIES) - 1], _OTHERS], SERIES, strict=True))


def _stack(axes: Axes, report: Report, values: Sequence[Mapping[str, float]], per: float) -> None:
    """Bars of every stretch, kind upon kind; each value is told for ``per`` seconds."""
    colors = _colors(report)
    starts, bottoms = _starts(report), [0.0] * len(values)
    for kind, color in colors.items():
        heights = [_of(kind, stretch, colors) / report.width * per for stretch in values]
        axes.bar(starts, heights, bottom=bottoms, width=_days(report.width), align="edge", color=color, label=kind)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]


def _legend(figure: Figure, is_narrow: bool) -> None:
    """Of all that has a label, above the axes and from the left edge: at the axes' own there may be no room for it."""
    figure.legend(loc="outside upper left", ncols=2 if is_narrow else len(SERIES), borderaxespad=0, handlelength=1.2)


def _totals(axes: Axes, totals: Iterable[int]) -> None:
    """The number of each row, behind its bar."""
    for row, total in enumerate(totals):
        axes.annotate(f"{total:,}", (total, row), xytext=(4, 0), textcoords="offset points", va="center")


def _of(kind: str, values: Mapping[str, float], colors: Mapping[str, str]) -> float:
    if kind != _OTHERS:
        return values.get(kind, 0)
    return sum(value for other, value in values.items() if other not in colors)


def _days(seconds: float) -> float:
    """matplotlib counts time in days."""
    return seconds / 86400


def _starts(report: Report) -> list[float]:
    start = float(_dates().date2num(report.subject.started_at))
    return [start + _days(stretch.at) for stretch in report.stretches]


# At the end of an axis whose labels are years, months, days, hours, minutes, seconds: what of the date they lack.
_OFFSETS = ["", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"]


def _time_axis(axes: Axes, report: Report, is_narrow: bool) -> None:
    zone = LocalTime()
    dates = _dates()
    locator = dates.AutoDateLocator(tz=zone, minticks=2, maxticks=4 if is_narrow else 9)
    # Its own intervals end at half of the next unit: of a run of 100 seconds, or minutes, it would warn on stderr. And
    # between one and five there is none: of four seconds a phone would show one alone.
    for unit, whole in ((dates.SECONDLY, 60), (dates.MINUTELY, 60), (dates.HOURLY, 24)):
        locator.intervald[unit] = sorted({*locator.intervald[unit], 2, whole})
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone, offset_formats=_OFFSETS))
    starts = _starts(report)
    axes.set_xlim(starts[0], starts[-1] + _days(report.width))
    axes.grid(visible=False, axis="x")


def _dates() -> Any:
    """matplotlib's module of times, which has no types."""
    from matplotlib import dates

    return dates


def _whole_numbers(axis: Axis, ticks: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(ticks, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _duration_axis(axes: Axes, longest: float, ticks: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit = next((length for length in (86400, 3600, 60) if longest >= 2 * length), 1)
    steps = [1, 2, 3, 6, 10] if unit in (3600, 60) else [1, 2, 5, 10]
    locator = MaxNLocator(ticks, steps=steps)
    axes.set_xticks([tick * unit for tick in locator.tick_values(0, longest / unit)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: duration(seconds) if seconds else "0"))
    axes.set_xlim(0, max(longest * 1.05, 0.1))


def _named(tenant: TenantWork, width: int) -> str:
    name = tenant.tenant if len(tenant.tenant) <= width else tenant.tenant[: width - 1] + "…"
    return name if tenant.lane == "bulk" else f"{name} ({tenant.lane})"


def _zone(report: Report) -> str:
    """``CET``, or ``CEST, then CET`` where the clocks were changed meanwhile."""
    start = report.subject.started_at
    end = start + timedelta(seconds=report.width * len(report.stretches))
    return ", then ".join(dict.fromkeys(f"{moment.astimezone():%Z}" for moment in (start, end)))
