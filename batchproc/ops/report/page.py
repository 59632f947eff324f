"""The report as one page of HTML that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from datetime import datetime
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from batchproc.core.durations import duration
from batchproc.core.shown_text import one_line
from batchproc.ops.report.charts import charts
from batchproc.ops.report.model import Report
from batchproc.ops.report.words import group_title, head, now, pruned, retaken, verdict
from batchproc.version import __version__


def html(report: Report) -> str:
    """The page. Everything that comes from the tables, paths above all, is escaped by the template."""
    environment = Environment(
        loader=DictLoader({"page": _packaged("report.html.j2")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "number": _number,
        "time": _time,
        "line": one_line,
        "title": group_title,
        "now": now,
    }
    return environment.get_template("page").render(
        report=report,
        subject=report.subject,
        head=head(report),
        verdict=verdict(report),
        retaken=retaken(report),
        pruned=pruned(report),
        charts=charts(report),
        style=Markup(_packaged("report.css")),  # noqa: S704 - a file of this package
        version=__version__,
    )


def _packaged(name: str) -> str:
    return resources.files("batchproc.ops.report").joinpath("templates", name).read_text("utf-8")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _time(value: datetime | None) -> str:
    return "–" if value is None else f"{value.astimezone():%Y-%m-%d %H:%M:%S %Z}"
